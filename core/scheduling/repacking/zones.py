"""Splits a large market by zone: pods that rules hold to a zone stay there, the others go where the fluid program has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from core import labels
from core.packing.fluid import relax
from core.packing.problem import Floats, Ints, Problem
from core.scheduling.ground import Ground
from core.scheduling.repacking.columns import problem_of
from core.scheduling.repacking.kinds import Kind, Kinds, Way
from core.scheduling.repacking.parties import Bundle, Market
from core.scheduling.repacking.party import Party
from core.scheduling.requirement_table import IMPOSSIBLE

ZONES_MIN: Final = 2


@dataclass(slots=True)
class _Quota:
    """How parties of one kind are dealt out to zones, so that each zone gets its share of every few of them."""

    shares: list[tuple[str, float]]
    dealt: Counter[str]

    def next(self) -> str:
        """The zone that is furthest behind its share."""
        number = sum(self.dealt.values()) + 1
        zone = max(self.shares, key=lambda entry: (entry[1] * number - self.dealt[entry[0]], entry[1]))[0]
        self.dealt[zone] += 1
        return zone


class Zones:
    """The zones of one market."""

    def __init__(self, ground: Ground, market: Market) -> None:
        self._ground = ground
        self._market = market
        types, mask = market.template.types, market.template.mask
        self._names = types.values(mask & types.mask(market.offered), market.offered, labels.ZONE)

    def split(self, bundles: Sequence[Bundle]) -> dict[str, list[Bundle]]:
        """Zone → the bundles that are to be packed there; nothing where fewer than two zones have any of their own."""
        counts = Counter(party for party, _ in bundles)
        homes = {party: self._homes(party) for party in counts}
        held = {next(iter(possible)) for possible in homes.values() if len(possible) == 1}
        if len(held) < ZONES_MIN or not all(homes.values()):
            return {}
        kinds = Kinds(counts)
        kind_of = {party: kinds.of(party, self._way(party, party.reqs)) for party in counts}
        is_open = any(len(homes[party]) > 1 for party in counts)
        quotas = self._quotas(counts, homes, kind_of, kinds.rows) if is_open else {}
        found: dict[str, list[Bundle]] = {}
        for bundle in bundles:
            possible = homes[bundle[0]]
            zone = quotas[kind_of[bundle[0]]].next() if len(possible) > 1 else next(iter(possible))
            found.setdefault(zone, []).append(bundle)
        return dict(sorted(found.items()))

    def _homes(self, party: Party) -> dict[str, Way]:
        """Zone → how the party may run there, for the zones in which some type has room for it."""
        types, found = self._market.template.types, {}
        for zone in self._names:
            reqs = self._ground.table.pinned(party.reqs, labels.ZONE, zone)
            if reqs != IMPOSSIBLE and types.fits(types.mask(reqs) & party.allowed, party.requests):
                found[zone] = self._way(party, reqs)
        return found

    def _way(self, party: Party, reqs: int) -> Way:
        return self._market.template.index, reqs, party.allowed

    def _quotas(
        self,
        counts: Mapping[Party, int],
        homes: Mapping[Party, Mapping[str, Way]],
        kind_of: Mapping[Party, Kind],
        rows: Mapping[int, int],
    ) -> dict[Kind, _Quota]:
        """For each kind, how its parties are best dealt out to zones."""
        totals: dict[Kind, int] = {}
        by_zone: dict[str, dict[Kind, Kind]] = {zone: {} for zone in self._names}
        for party, count in counts.items():
            kind = kind_of[party]
            totals[kind] = totals.get(kind, 0) + count
            for zone, way in homes[party].items():
                by_zone[zone][kind] = kind.running(way)
        blocks = {
            zone: problem_of(self._ground.templates, {there: totals[kind] for kind, there in kinds.items()}, rows)
            for zone, kinds in by_zone.items()
            if kinds
        }
        numbers = {kind: number for number, kind in enumerate(totals)}
        users = {zone: np.array([numbers[kind] for kind in by_zone[zone]], dtype=np.int64) for zone in blocks}
        loads = _loads(_side_by_side(totals, blocks, users))
        ends = np.cumsum([len(block.prices) for block in blocks.values()])[:-1]
        per_zone = {zone: part.sum(axis=1) for zone, part in zip(blocks, np.split(loads, ends, axis=1), strict=True)}
        return {
            kind: _Quota(_normal({zone: float(per_zone[zone][number]) for zone in blocks}, by_zone, kind), Counter())
            for kind, number in numbers.items()
        }


def _side_by_side(totals: Mapping[Kind, int], blocks: Mapping[str, Problem], users: Mapping[str, Ints]) -> Problem:
    """The zones' problems as one: the types of each zone, and kinds that may run in several."""
    some = next(iter(blocks.values()))
    requests = np.zeros((len(totals), some.requests.shape[1]), dtype=np.int64)
    columns = []
    for zone, block in blocks.items():
        requests[users[zone]] = block.requests
        allowed = np.zeros((len(totals), len(block.prices)), dtype=np.bool_)
        allowed[users[zone]] = block.allowed
        columns.append(allowed)
    return Problem.of(
        requests=requests,
        counts=np.array(list(totals.values()), dtype=np.int64),
        room=np.concatenate([block.room for block in blocks.values()]),
        prices=np.concatenate([block.prices for block in blocks.values()]),
        allowed=np.concatenate(columns, axis=1),
    )


def _loads(problem: Problem) -> Floats:
    """[kind, type] of the fluid program."""
    kept = problem.undominated()
    loads = np.zeros(problem.allowed.shape)
    loads[:, kept] = relax(problem.restricted(kept)).loads
    return loads


def _normal(loads: dict[str, float], by_zone: Mapping[str, Mapping[Kind, Kind]], kind: Kind) -> list[tuple[str, float]]:
    """Shares of one, for the zones where the kind may run."""
    possible = {zone: load for zone, load in loads.items() if kind in by_zone[zone]}
    total = sum(possible.values())
    if total <= 0:
        return [(zone, 1 / len(possible)) for zone in possible]
    return [(zone, load / total) for zone, load in possible.items()]
