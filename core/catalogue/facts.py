"""What was read of a region's instance types and prices, and when: the raw stock that catalogues are built from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from core.catalogue.build import DEFAULTS, build_catalogue
from core.catalogue.market import Market
from core.catalogue.shape import Shape
from core.catalogue.sizing import Settings
from core.model.catalogue import Catalogue


class MarketFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One region's shapes and market.

    Attributes:
        shapes_read_at: When types and zones were last read; shapes change with AWS' announcements, days apart.
        prices_read_at: When prices were last read; spot prices move within hours.
    """

    shapes: tuple[Shape, ...]
    market: Market
    shapes_read_at: datetime
    prices_read_at: datetime

    def catalogue(self, node_classes: Sequence[Mapping[str, Any]], settings: Settings = DEFAULTS) -> Catalogue:
        """The catalogue for these EC2NodeClass manifests."""
        return build_catalogue(self.shapes, self.market, node_classes, settings)
