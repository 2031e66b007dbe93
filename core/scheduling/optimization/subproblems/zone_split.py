"""Splits a large market by zone: pods that rules hold to a zone stay there, the others go where the fluid program has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from core import labels
from core.packing.search_budget import Budget
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.items.item_extraction import Bundle, Market
from core.scheduling.optimization.items.item_groups import Kind, Kinds, Way
from core.scheduling.optimization.items.packing_item import Party
from core.scheduling.optimization.subproblems.zone_shares import ZoneShares
from core.scheduling.primitives.handles import RequirementId
from core.scheduling.primitives.requirement_table import IMPOSSIBLE

ZONES_MIN: Final = 2
"""With pods held to fewer zones there is nothing to split."""

_DIGITS: Final = 6

Homes = dict[str, Way]
"""Zone → how a party may run there."""


class Zones:
    """The zones of one market."""

    def __init__(self, context: SchedulingContext, market: Market, budget: Budget) -> None:
        """Deal out by the fluid program while the budget lasts, otherwise by size."""
        self._context = context
        self._market = market
        self._budget = budget
        types, mask = market.template.types, market.template.mask
        self._names = types.values(mask & types.mask(market.offered), market.offered, labels.ZONE)

    def split(self, bundles: Sequence[Bundle]) -> dict[str, list[Bundle]]:
        """Zone → the bundles that are to be packed there; nothing where fewer than two zones have any of their own."""
        counts = Counter(party for party, _ in bundles)
        homes = {party: self._homes(party) for party in counts}
        held = {next(iter(possible)) for possible in homes.values() if len(possible) == 1}
        if len(held) < ZONES_MIN or not all(homes.values()):
            return {}
        if all(len(possible) == 1 for possible in homes.values()):
            return _grouped((next(iter(homes[bundle[0]])), bundle) for bundle in bundles)
        kinds = Kinds(counts)
        kind_of = {party: kinds.of(party, self._way(party, party.reqs)) for party in counts}
        dealers = self._dealers(counts, homes, kind_of, kinds.rows)
        return _grouped((dealers[kind_of[bundle[0]]].next(), bundle) for bundle in bundles)

    def _homes(self, party: Party) -> Homes:
        """The zones in which some type has room for the party."""
        types, found = self._market.template.types, {}
        for zone in self._names:
            reqs = self._context.table.with_value(party.reqs, labels.ZONE, zone)
            if reqs != IMPOSSIBLE and types.room.fits(types.mask(reqs) & party.allowed, party.requests):
                found[zone] = self._way(party, reqs)
        return found

    def _way(self, party: Party, reqs: RequirementId) -> Way:
        return self._market.template.index, reqs, party.allowed

    def _dealers(
        self,
        counts: Mapping[Party, int],
        homes: Mapping[Party, Homes],
        kind_of: Mapping[Party, Kind],
        rows: Mapping[int, int],
    ) -> dict[Kind, _Dealer]:
        """Kind → who deals its parties out; one for all that take the same hostname groups in the same shares."""
        totals: dict[Kind, int] = {}
        by_zone: dict[str, dict[Kind, Kind]] = {}
        for party, count in counts.items():
            kind = kind_of[party]
            totals[kind] = totals.get(kind, 0) + count
            for zone, way in homes[party].items():
                by_zone.setdefault(zone, {})[kind] = kind.running(way)
        known = ZoneShares(self._context.templates, totals, by_zone, rows)
        shares = known.by_size() if self._budget.is_spent else known.best()
        dealers: dict[tuple[object, ...], _Dealer] = {}
        found: dict[Kind, _Dealer] = {}
        for kind, row in zip(totals, shares.tolist(), strict=True):
            of_kind = {zone: round(share, _DIGITS) for zone, share in zip(by_zone, row, strict=True)}
            found[kind] = dealers.setdefault((kind.rows, *of_kind.items()), _Dealer(of_kind))
        return found


def _grouped(dealt: Iterable[tuple[str, Bundle]]) -> dict[str, list[Bundle]]:
    found: dict[str, list[Bundle]] = {}
    for zone, bundle in dealt:
        found.setdefault(zone, []).append(bundle)
    return dict(sorted(found.items()))


class _Dealer:
    """Deals parties out to zones, so that each zone has its share of every few of them."""

    def __init__(self, shares: Mapping[str, float]) -> None:
        self._shares = {zone: share for zone, share in shares.items() if share > 0}
        self._dealt = Counter[str]()

    def next(self) -> str:
        """The zone that is furthest behind its share."""
        number = self._dealt.total() + 1
        behind = {zone: share * number - self._dealt[zone] for zone, share in self._shares.items()}
        zone = max(behind, key=lambda one: (behind[one], one))
        self._dealt[zone] += 1
        return zone
