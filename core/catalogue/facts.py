"""A region's instance types and prices as last read from AWS, from which catalogues are built."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.catalogue.build import DEFAULTS, CatalogueBuilder
from core.catalogue.market import Market
from core.catalogue.shape import Shape
from core.model.values.sizing_settings import SizingSettings

PRICES_STALE_AFTER: Final = timedelta(hours=3)
"""Three missed hourly readings."""

SHAPES_STALE_AFTER: Final = timedelta(hours=36)
"""Three missed readings of instance types and zones."""


class StalePart(msgspec.Struct, frozen=True):
    """A part of the market that is so old that it may mislead plans.

    Attributes:
        name: The part, as condition reasons name it.
        explanation: Which part it is, and when it was last read.
    """

    name: str
    explanation: str


class MarketFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One region's shapes and market.

    Attributes:
        shapes_read_at: When types and zones were last read; AWS announces new types days apart.
        prices_read_at: When prices were last read; spot prices move within hours.
        prices_are_estimates: Whether on-demand prices could never be read, and are estimated from sizes.
        problems: What the last reading failed to read; earlier values stay in use.
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

    def stale_parts(self, now: datetime) -> tuple[StalePart, ...]:
        """Return the parts that are so old that they may mislead plans, prices first; none if all parts are current."""
        parts = (
            ("Prices", "prices", self.prices_read_at, PRICES_STALE_AFTER),
            ("InstanceTypes", "instance types and zones", self.shapes_read_at, SHAPES_STALE_AFTER),
        )
        return tuple(
            StalePart(name, f"{what} were last read at {read_at:%Y-%m-%d %H:%M} UTC")
            for name, what, read_at, limit in parts
            if now - read_at >= limit
        )
