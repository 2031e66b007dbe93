"""Keeps the claims of static NodePools within the free addresses of subnets; plans for pods do so by constraints (ADR 225).

Only zones count in which every subnet of the EC2NodeClass has few addresses.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from core.disruption.prices import ReplacementOptions
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot


class AddressRoom:
    """The addresses that running nodes and the claims of a plan leave."""

    def __init__(self, snapshot: Snapshot, planned: Iterable[PlannedClaim] = ()) -> None:
        """`planned`: the claims for pods, which go first; each takes an address in every zone in which it may be launched."""
        self._snapshot = snapshot
        self._left = dict(snapshot.subnet_addresses)
        self._each = {found.name: found.addresses_per_node for found in snapshot.node_classes}
        self._scarce = {found.name: _scarce_zones(found.subnets, self._left) for found in snapshot.node_classes}
        for claim in planned if self._left else ():
            self._take_worst(claim)

    def fitting(self, claim: PlannedClaim, number: int) -> list[PlannedClaim]:
        """Return this many claims, or as many as there are addresses for.

        They keep all of their zones if each zone has room for all of them. If not, they go to zones with plenty of addresses,
        else each to the zone with the most.
        """
        if not any(zone in self._zones_of(claim) for zone in claim.zones):
            return [claim] * number
        before = dict(self._left)
        if all(self._take_worst(claim) for _ in range(number)):
            return [claim] * number
        self._left = before
        plenty = self._within(claim, [zone for zone in claim.zones if zone not in self._zones_of(claim)])
        if plenty is not None:
            return [plenty] * number
        found: list[PlannedClaim] = []
        by_zone = {zone: self._within(claim, [zone]) for zone in claim.zones}
        for _ in range(number):
            zones = (zone for zone, narrowed in by_zone.items() if narrowed is not None and self._has_room(claim, zone))
            zone = max(zones, key=lambda one: (self._left[self._roomiest(claim, one)], one), default=None)
            narrowed = by_zone.get(zone) if zone is not None else None
            if zone is None or narrowed is None:
                break
            self._take(claim, zone)
            found.append(narrowed)
        return found

    def _within(self, claim: PlannedClaim, zones: list[str]) -> PlannedClaim | None:
        """Return the claim in these zones only, None if nothing, or less than minValues demand, can be launched there."""
        options = ReplacementOptions.of(msgspec.structs.replace(claim, zones=tuple(zones)), self._snapshot)
        return options.planned() if options.can_launch(self._snapshot.options.min_values_policy) else None

    def _take_worst(self, claim: PlannedClaim) -> bool:
        """Take an address in every zone of the claim; return whether each had one."""
        zones = [zone for zone in claim.zones if zone in self._zones_of(claim)]
        had_room = all(self._has_room(claim, zone) for zone in zones)
        for zone in zones:
            self._take(claim, zone)
        return had_room

    def _take(self, claim: PlannedClaim, zone: str) -> None:
        self._left[self._roomiest(claim, zone)] -= self._each[claim.node_class.name]

    def _has_room(self, claim: PlannedClaim, zone: str) -> bool:
        return self._left[self._roomiest(claim, zone)] >= self._each[claim.node_class.name]

    def _roomiest(self, claim: PlannedClaim, zone: str) -> str:
        return max(self._zones_of(claim)[zone], key=lambda subnet: self._left[subnet])

    def _zones_of(self, claim: PlannedClaim) -> dict[str, list[str]]:
        return self._scarce.get(claim.node_class.name, {})


def _scarce_zones(subnets: Iterable[tuple[str, str]], free: dict[str, int]) -> dict[str, list[str]]:
    """Return zone → its subnets, sorted, for the zones in which all of them have few addresses."""
    by_zone: dict[str, list[str]] = {}
    for subnet, zone in sorted(subnets):
        by_zone.setdefault(zone, []).append(subnet)
    return {zone: found for zone, found in by_zone.items() if all(subnet in free for subnet in found)}
