"""Divides a large scope by zone: pods that rules hold to a zone stay there, and the fluid program divides the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from core import labels
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items.item_extraction import RepackScope
from core.scheduling.optimization.items.item_groups import ItemGroup, ItemGrouping, LaunchOption
from core.scheduling.optimization.items.packing_item import MovablePods, PackingItem
from core.scheduling.optimization.subproblems.zone_shares import ZoneShares
from core.scheduling.primitives.handles import RequirementId, TopologyGroupId
from core.scheduling.primitives.requirement_table import IMPOSSIBLE

ZoneOptions = dict[str, LaunchOption]
"""Zone → an item's launch option there."""


class ZoneSplit:
    """The zones of one scope."""

    def __init__(
        self, context: SchedulingContext, scope: RepackScope, budget: SearchBudget, settings: SearchSettings
    ) -> None:
        """Divide pods by the fluid program while the budget lasts, otherwise by size."""
        self._context = context
        self._scope = scope
        self._budget = budget
        self._settings = settings
        types, mask = scope.template.types, scope.template.mask
        self._zones = types.values(mask & types.mask(scope.offered), scope.offered, labels.ZONE)

    def split(self, movable: Sequence[MovablePods]) -> dict[str, list[MovablePods]]:
        """Return zone → the pods to be packed there; empty if fewer than two zones would get pods."""
        counts = Counter(one.item for one in movable)
        options = {item: self._zone_options(item) for item in counts}
        only_zones = {next(iter(possible)) for possible in options.values() if len(possible) == 1}
        if len(only_zones) < self._settings.repack.zones_min or not all(options.values()):
            return {}
        if all(len(possible) == 1 for possible in options.values()):
            return _by_zone((next(iter(options[one.item])), one) for one in movable)
        grouping = ItemGrouping(counts, self._settings.repack)
        group_of = {item: grouping.of(item, self._option(item, item.reqs)) for item in counts}
        allocations = self._allocations(counts, options, group_of, grouping.hostname_capacity)
        of_item = {item: allocations[group] for item, group in group_of.items()}
        return _by_zone((of_item[one.item].next_zone(), one) for one in movable)

    def _zone_options(self, item: PackingItem) -> ZoneOptions:
        """Return the zones in which some type has room for the item."""
        types, found = self._scope.template.types, {}
        for zone in self._zones:
            reqs = self._context.table.with_value(item.reqs, labels.ZONE, zone)
            if reqs != IMPOSSIBLE and types.room.fits(types.mask(reqs) & item.allowed, item.requests):
                found[zone] = self._option(item, reqs)
        return found

    def _option(self, item: PackingItem, reqs: RequirementId) -> LaunchOption:
        return LaunchOption(self._scope.template.index, reqs, item.allowed)

    def _allocations(
        self,
        counts: Mapping[PackingItem, int],
        options: Mapping[PackingItem, ZoneOptions],
        group_of: Mapping[PackingItem, ItemGroup],
        hostname_capacity: Mapping[TopologyGroupId, int],
    ) -> dict[ItemGroup, _ZoneAllocation]:
        """Return group → its allocation."""
        totals: dict[ItemGroup, int] = {}
        by_zone: dict[str, dict[ItemGroup, ItemGroup]] = {}
        for item, count in counts.items():
            group = group_of[item]
            totals[group] = totals.get(group, 0) + count
            for zone, option in options[item].items():
                by_zone.setdefault(zone, {})[group] = group.restricted_to(option)
        zone_shares = ZoneShares(
            self._context.templates,
            counts=totals,
            by_zone=by_zone,
            hostname_capacity=hostname_capacity,
            settings=self._settings,
        )
        pods = zone_shares.by_size() if self._budget.is_spent else zone_shares.best()
        return {
            group: _ZoneAllocation(dict(zip(by_zone, row, strict=True)))
            for group, row in zip(totals, pods.tolist(), strict=True)
        }


def _by_zone(allocated: Iterable[tuple[str, MovablePods]]) -> dict[str, list[MovablePods]]:
    found: dict[str, list[MovablePods]] = {}
    for zone, movable in allocated:
        found.setdefault(zone, []).append(movable)
    return dict(sorted(found.items()))


class _ZoneAllocation:
    """Allocates a group's items to zones one by one, evenly interleaved by the zones' shares."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        """Start with the number of items of each zone."""
        self._counts = {zone: count for zone, count in counts.items() if count}
        self._total = sum(counts.values())
        self._allocated = dict.fromkeys(self._counts, 0)
        self._items = 0

    def next_zone(self) -> str:
        """Return the zone that is furthest behind its share, ties to the last name."""
        if len(self._counts) == 1:
            return next(iter(self._counts))
        self._items += 1
        behind = {
            zone: count * self._items - self._allocated[zone] * self._total
            for zone, count in self._counts.items()
            if self._allocated[zone] < count
        }
        zone = max(behind, key=lambda one: (behind[one], one))
        self._allocated[zone] += 1
        return zone
