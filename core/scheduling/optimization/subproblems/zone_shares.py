"""Which share of each kind is best packed in which zone, by the fluid program over all zones at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from core.packing.problem import Floats, Ints, Problem
from core.packing.relaxation.fluid_lp import relax
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.optimization.items.item_groups import Kind
from core.scheduling.optimization.subproblems.packing_columns import problem_of

EVEN_COST: Final = 2e-3
"""What an even mix in every zone may cost over the best one: where all zones cost the same, the best one is an odd corner,
and machines that hold few pods of each kind are harder to fill."""

_FINELY: Final = 100
"""Counts are multiplied by this before shares of them are rounded to whole pods."""


class ZoneShares:
    """The fluid program over the zones of one market.

    Args:
        counts: How many parties there are of each kind.
        homes: For each zone, the kinds that may run there, as they may there.
        rows: The hostname groups that are resources.
    """

    def __init__(
        self,
        templates: Sequence[NodeClaimTemplate],
        counts: Mapping[Kind, int],
        homes: Mapping[str, Mapping[Kind, Kind]],
        rows: Mapping[int, int],
    ) -> None:
        self._kinds = list(counts)
        self._counts = np.array(list(counts.values()), dtype=np.int64)
        numbers = {kind: number for number, kind in enumerate(self._kinds)}
        self._users = [np.array([numbers[kind] for kind in kinds], dtype=np.int64) for kinds in homes.values()]
        blocks = (_block(templates, kinds, counts, rows) for kinds in homes.values())
        self._blocks = [block.restricted(block.undominated()) for block in blocks]

    def best(self) -> Floats:
        """[kind, zone], which share of the kind each zone gets; zones in the order in which they were given."""
        joint = self._joint()
        alike = _sold_alike(joint)
        fluid = relax(alike)
        even = self._level(fluid.values)
        if self._bound(even) <= fluid.bound * (1 + EVEN_COST):
            return even
        loads = relax(joint).loads if len(alike.prices) < len(joint.prices) else fluid.loads
        ends = np.cumsum([len(block.prices) for block in self._blocks])[:-1]
        return _of_one(np.stack([part.sum(axis=1) for part in np.split(loads, ends, axis=1)], axis=1))

    def by_size(self) -> Floats:
        """As `best`, without any program: every zone gets of each kind what the pods held to it have of all that are held."""
        requests = self._joint().requests
        sizes = (requests / np.maximum(self._counts @ requests, 1)).sum(axis=1)
        return self._level(sizes)

    def _joint(self) -> Problem:
        """The zones' problems as one: the types of each zone, and kinds that may run in several."""
        requests = np.zeros((len(self._kinds), self._blocks[0].requests.shape[1]), dtype=np.int64)
        columns = []
        for users, block in zip(self._users, self._blocks, strict=True):
            requests[users] = block.requests
            allowed = np.zeros((len(self._kinds), len(block.prices)), dtype=np.bool_)
            allowed[users] = block.allowed
            columns.append(allowed)
        return Problem.of(
            requests=requests,
            counts=self._counts,
            room=np.concatenate([block.room for block in self._blocks]),
            prices=np.concatenate([block.prices for block in self._blocks]),
            allowed=np.concatenate(columns, axis=1),
        )

    def _level(self, values: Floats) -> Floats:
        """Shares by what pods held to one zone are worth there, for every kind alike.

        Args:
            values: [kind], what one of it is worth.
        """
        may = np.zeros((len(self._kinds), len(self._blocks)), dtype=np.bool_)
        for zone, users in enumerate(self._users):
            may[users, zone] = True
        held = np.where((may.sum(axis=1) == 1)[:, None], may * (self._counts * values)[:, None], 0.0).sum(axis=0)
        return _of_one(np.where(may, np.maximum(held, 1e-9 * held.max(initial=1.0)), 0.0))

    def _bound(self, shares: Floats) -> int:
        """What the zones cost at the least if kinds are dealt out so."""
        total = 0
        for zone, (users, block) in enumerate(zip(self._users, self._blocks, strict=True)):
            counts: Ints = np.rint(self._counts[users] * shares[users, zone] * _FINELY).astype(np.int64)
            present = np.flatnonzero(counts)
            if present.size:
                total += relax(block.of_classes(present, counts[present])).bound
        return total // _FINELY


def _sold_alike(problem: Problem) -> Problem:
    """The problem with types that offer the same for the same price as one, on which all may run that may on any of them.

    Its fluid program is several times smaller where zones cost the same, and costs no more than the whole one.
    """
    offers = np.column_stack([problem.prices, problem.room])
    _, first, number = np.unique(offers, axis=0, return_index=True, return_inverse=True)
    if len(first) == len(offers):
        return problem
    allowed = np.zeros((len(problem.counts), len(first)), dtype=np.bool_)
    np.logical_or.at(allowed.T, number.ravel(), problem.allowed.T)
    return Problem.of(
        requests=problem.requests,
        counts=problem.counts,
        room=problem.room[first],
        prices=problem.prices[first],
        allowed=allowed,
    )


def _block(
    templates: Sequence[NodeClaimTemplate],
    kinds: Mapping[Kind, Kind],
    counts: Mapping[Kind, int],
    rows: Mapping[int, int],
) -> Problem:
    """One zone's problem, a class for each kind: two that differ elsewhere may be alike there."""
    alike = {there: number for number, there in enumerate(dict.fromkeys(kinds.values()))}
    problem = problem_of(templates, dict.fromkeys(alike, 1), rows)
    pod_groups = np.array([alike[there] for there in kinds.values()], dtype=np.int64)
    return problem.of_classes(pod_groups, np.array([counts[kind] for kind in kinds], dtype=np.int64))


def _of_one(loads: Floats) -> Floats:
    """Loads as shares of each kind."""
    shares: Floats = loads / np.maximum(loads.sum(axis=1, keepdims=True), 1e-12)
    return shares
