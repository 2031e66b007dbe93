"""A region's instance types and prices as last read from AWS, from which catalogues are built."""

from __future__ import annotations

from datetime import datetime

import msgspec

from core.catalogue.build import DEFAULTS, CatalogueBuilder
from core.catalogue.market import Market
from core.catalogue.shape import Shape
from core.model.values.sizing_settings import SizingSettings


class MarketFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One region's shapes and market.

    Attributes:
        shapes_read_at: When types and zones were last read; shapes change with AWS' announcements, days apart.
        prices_read_at: When prices were last read; spot prices move within hours.
        prices_are_estimates: Whether on-demand prices could never be read, and are estimated from sizes.
        problems: What the last reading could not read, so that earlier values stay.
    """

    shapes: tuple[Shape, ...]
    market: Market
    shapes_read_at: datetime
    prices_read_at: datetime
    prices_are_estimates: bool = False
    problems: tuple[str, ...] = ()

    def builder(self, settings: SizingSettings = DEFAULTS) -> CatalogueBuilder:
        """Builds catalogues for EC2NodeClass manifests from these facts."""
        return CatalogueBuilder(self.shapes, self.market, settings)
