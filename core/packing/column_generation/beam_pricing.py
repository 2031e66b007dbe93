"""Beam search for loads: classes are decided one by one, those about which rents leave a doubt last, many loads side by side.

A pod that is worth more than the rent of its room belongs onto a machine, one that is worth less does not; so much is lost by
every decision against that. What is left of a load's promise when all classes are decided is its worth and the rent of the room
that stays empty.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from core.packing.problem import Bools, Floats, Ints, Packing, Problem

WORTH_MIN: Final = 1 + 1e-5
"""What a load must be worth, in prices of its machine."""

STATES_MAX: Final = 6000
STATES_EACH_MAX: Final = 400
"""Partial loads that are followed, for all types and for each."""

TYPES_MAX: Final = 40
"""Types that are searched at once, those with the best promise."""

OPTIONS: Final = 6
"""How many amounts of a class are tried: from the one on that the rents ask for."""

LOADS_EACH: Final = 2
"""Loads that are returned for each type."""


class Beam:
    """One search, for loads that are worth more than their machine.

    Args:
        problem: What to pack and where.
        demand: [class], how many pods there are to take.
        values: [class], what a pod is worth.
        rents: [type, resource], what room is worth.
    """

    def __init__(self, problem: Problem, demand: Ints, values: Floats, rents: Floats) -> None:
        self._values = values
        self._least = problem.prices.astype(np.float64) * WORTH_MIN
        self._used = np.flatnonzero(problem.requests[demand > 0].any(axis=0))
        self._requests = problem.requests[:, self._used].astype(float)
        self._room = problem.room[:, self._used].astype(float)
        self._gains = values[:, None] - problem.requests @ rents.T
        self._most = np.minimum(problem.fit, demand[:, None]).astype(float)
        promised = (problem.room * rents).sum(axis=1) + (np.maximum(self._gains, 0) * self._most).sum(axis=0)
        self._kinds = _the_most(promised / self._least, promised > self._least, TYPES_MAX)
        self._order, self._decisions = _in_doubt_last(self._gains, self._most, promised - self._least)
        self._kind, self._left, self._promise = self._kinds, self._room[self._kinds].copy(), promised[self._kinds]
        self._trail: list[tuple[Ints, Ints, Floats]] = []

    def loads(self) -> Packing:
        """The best loads of each type that are worth more than their machine."""
        for rank in range(int(self._decisions[self._kinds].max(initial=0))):
            self._decide(rank)
        worth = self._worth()
        best = np.lexsort((-worth, self._kind))
        best = best[_position_within(self._kind[best]) < LOADS_EACH]
        best = best[worth[best] > self._least[self._kind[best]]]
        traced = [self._traced(int(state)) for state in best]
        return Packing(self._kind[best], np.array(traced, dtype=np.int64).reshape(len(best), len(self._values)))

    def _decide(self, rank: int) -> None:
        """Branch every partial load over amounts of its next class, and keep the most promising ones."""
        pod_class = self._order[rank, self._kind]
        wanted, gain = self._requests[pod_class], self._gains[pod_class, self._kind]
        most = np.where(rank < self._decisions[self._kind], self._most[pod_class, self._kind], 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            holds = np.minimum(np.floor(np.fmin.reduce(self._left / wanted, axis=1)), most)
        steps = np.arange(OPTIONS)
        amounts = np.where(gain[:, None] > 0, holds[:, None] - steps, steps)
        lost = np.where(gain[:, None] > 0, gain[:, None] * (most[:, None] - amounts), -gain[:, None] * amounts)
        promise = self._promise[:, None] - lost
        possible = (amounts >= 0) & (amounts <= holds[:, None]) & (promise > self._least[self._kind][:, None])
        state, option = np.nonzero(possible)
        left = self._left[state] - amounts[state, option, None] * wanted[state]
        kept = _distinct_best(self._kind[state], left, promise[state, option])
        state, option = state[kept], option[kept]
        self._trail.append((state, pod_class[state], amounts[state, option]))
        self._kind, self._left, self._promise = self._kind[state], left[kept], promise[state, option]

    def _worth(self) -> Floats:
        """What the pods of each load are worth."""
        worth = np.zeros(len(self._kind))
        at = np.arange(len(self._kind))
        for parent, pod_class, amount in reversed(self._trail):
            worth += self._values[pod_class[at]] * amount[at]
            at = parent[at]
        return worth

    def _traced(self, state: int) -> Ints:
        load = np.zeros(len(self._values), dtype=np.int64)
        for parent, pod_class, amount in reversed(self._trail):
            load[pod_class[state]] += int(amount[state])
            state = int(parent[state])
        return load


def _the_most(scores: Floats, eligible: Bools, many: int) -> Ints:
    """The eligible positions with the highest scores, in their own order."""
    ranked = np.argsort(-np.where(eligible, scores, -np.inf), kind="stable")[: min(many, int(eligible.sum()))]
    return np.sort(ranked)


def _in_doubt_last(gains: Floats, most: Floats, slack: Floats) -> tuple[Ints, Ints]:
    """[rank, type], classes that a worthwhile load may hold, the clear cases first; and how many of them each type has."""
    matters = (most > 0) & (-gains <= slack)
    clearness = np.where(matters, np.abs(gains), -1.0)
    return np.argsort(-clearness, axis=0, kind="stable"), matters.sum(axis=0)


def _distinct_best(kind: Ints, left: Floats, promise: Floats) -> Ints:
    """The most promising partial loads of each type; of those that leave the same room only the best."""
    mixed = left @ np.sqrt(np.arange(2, left.shape[1] + 2))
    alike = np.lexsort((-promise, mixed, kind))
    first = np.ones(len(alike), dtype=np.bool_)
    first[1:] = (kind[alike][1:] != kind[alike][:-1]) | (mixed[alike][1:] != mixed[alike][:-1])
    distinct = alike[first]
    ranked = distinct[np.lexsort((-promise[distinct], kind[distinct]))]
    types = max(1, len(np.unique(kind)))
    return ranked[_position_within(kind[ranked]) < min(STATES_EACH_MAX, STATES_MAX // types)]


def _position_within(kind: Ints) -> Ints:
    """For a sorted array, the position of each element among its equals."""
    return np.arange(len(kind)) - np.searchsorted(kind, kind)
