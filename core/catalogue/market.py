"""The market of a region: which type is sold in which zone, and at which price."""

from __future__ import annotations

import msgspec


class Market(msgspec.Struct, frozen=True, kw_only=True):
    """One region's offers. Prices are nano-dollars per hour for Linux.

    Attributes:
        offered: Instance type → zones that sell it.
        on_demand: Instance type → price, the same in every zone.
        spot: Instance type → zone → price. None: no spot prices were ever read, and on-demand prices stand in for them
            (Karpenter, before its first update); a zone that is missing has no spot market.
        unlisted_spot: Instance type → zones whose spot price the last reading no longer listed. Nodes that run there
        keep their last price; nothing is launched there. zone_ids: Zone name → zone id, if known.
    """

    region: str
    offered: dict[str, tuple[str, ...]] = {}
    on_demand: dict[str, int] = {}
    spot: dict[str, dict[str, int]] | None = None
    unlisted_spot: dict[str, tuple[str, ...]] = {}
    zone_ids: dict[str, str] = {}

    def spot_price(self, instance_type: str, zone: str) -> int | None:
        """Return the last spot price, None where spot was never sold."""
        if self.spot is None:
            return self.on_demand.get(instance_type)
        return self.spot.get(instance_type, {}).get(zone)

    def lists_spot(self, instance_type: str, zone: str) -> bool:
        """Return whether the last reading had this spot price; True also before the first."""
        return zone not in self.unlisted_spot.get(instance_type, ())
