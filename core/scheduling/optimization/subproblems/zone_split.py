"""Divides a large scope by zone: pods that rules hold to a zone stay there, and the fluid program divides the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat

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
        counts = Counter([one.item for one in movable])
        # Items that differ only in hostname rules have the same options.
        alike = {(item.reqs, item.allowed, item.requests): item for item in counts}
        known = {question: self._zone_options(item) for question, item in alike.items()}
        options = {item: known[item.reqs, item.allowed, item.requests] for item in counts}
        only_zones = {next(iter(possible)) for possible in options.values() if len(possible) == 1}
        if len(only_zones) < self._settings.repack.zones_min or not all(options.values()):
            return {}
        if all(len(possible) == 1 for possible in options.values()):
            return _by_zone((next(iter(options[one.item])), one) for one in movable)
        grouping = ItemGrouping(counts, self._settings.repack)
        group_of = {item: grouping.of(item, self._option(item, item.reqs)) for item in counts}
        zones_of = self._zones_of(counts, options, group_of, grouping.hostname_capacity)
        of_item = {item: zones_of[group] for item, group in group_of.items()}
        return _by_zone((next(of_item[one.item]), one) for one in movable)

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

    def _zones_of(
        self,
        counts: Mapping[PackingItem, int],
        options: Mapping[PackingItem, ZoneOptions],
        group_of: Mapping[PackingItem, ItemGroup],
        hostname_capacity: Mapping[TopologyGroupId, int],
    ) -> dict[ItemGroup, Iterator[str]]:
        """Return group → the zone of each of its items."""
        totals: dict[ItemGroup, int] = {}
        by_zone: dict[str, dict[ItemGroup, ItemGroup]] = {}
        for item, count in counts.items():
            group = group_of[item]
            for zone, option in () if group in totals else options[item].items():
                by_zone.setdefault(zone, {})[group] = group.restricted_to(option)
            totals[group] = totals.get(group, 0) + count
        zone_shares = ZoneShares(
            self._context.templates,
            counts=totals,
            by_zone=by_zone,
            hostname_capacity=hostname_capacity,
            settings=self._settings,
        )
        pods = zone_shares.by_size() if self._budget.is_spent else zone_shares.best()
        return {
            group: _interleaved(dict(zip(by_zone, row, strict=True)))
            for group, row in zip(totals, pods.tolist(), strict=True)
        }


def _by_zone(allocated: Iterable[tuple[str, MovablePods]]) -> dict[str, list[MovablePods]]:
    found: dict[str, list[MovablePods]] = {}
    for zone, movable in allocated:
        found.setdefault(zone, []).append(movable)
    return dict(sorted(found.items()))


def _interleaved(counts: Mapping[str, int]) -> Iterator[str]:
    """Return the zone of each of a group's items in turn: the one that is furthest behind its share, ties to the last name.

    Args:
        counts: Zone → its number of items.
    """
    zones = sorted(zone for zone, count in counts.items() if count)
    if len(zones) == 1:
        return repeat(zones[0])
    return _furthest_behind(zones, [counts[zone] for zone in zones])


def _furthest_behind(zones: Sequence[str], counts: Sequence[int]) -> Iterator[str]:
    total, allocated = sum(counts), [0] * len(counts)
    for items in range(1, total + 1):
        _, position = max(
            [
                (count * items - done * total, position)
                for position, (count, done) in enumerate(zip(counts, allocated, strict=True))
                if done < count
            ]
        )
        allocated[position] += 1
        yield zones[position]
