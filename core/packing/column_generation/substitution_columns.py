"""Which pods may stand in for which: a place for one pod also takes another that asks for no more and may run there too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from core.packing.problem import Bools, Floats, Ints, Problem


@dataclass(frozen=True, slots=True, eq=False)
class StandIns:
    """The partial order of classes by what they ask for.

    Attributes:
        pairs: [pair, 2], a place for the first may go to the second; only next neighbours in the order are named.
        order: Every class, none before one that it may stand in for.
    """

    pairs: Ints
    order: Ints

    @classmethod
    def of(cls, problem: Problem) -> StandIns:
        """The order among a problem's classes. One with a cap of its own stands in for none: places would add up to more."""
        may = _may(problem)
        steps = may.astype(np.float32)
        next_neighbours = may & ~((steps @ steps) > 0)
        return cls(np.argwhere(next_neighbours), np.argsort(-may.sum(axis=1), kind="stable"))

    def seated(self, places: Ints, flows: Floats, demand: Ints) -> Ints:
        """Give places ([machine, class]) to pods: no class gets more than it has pods, the rest to those that stand in.

        Args:
            places: Changed in place and returned; a place that nobody takes is left out.
            flows: [pair], how many places the linear program passes on.
            demand: [class], how many pods wait for a place.
        """
        held = places.sum(axis=0)
        passed_on = np.flatnonzero(flows > 1e-6)
        passed_on = passed_on[np.argsort(-flows[passed_on], kind="stable")]
        for giver in self.order:
            excess = int(held[giver] - demand[giver])
            if excess <= 0:
                continue
            for pair in passed_on[self.pairs[passed_on, 0] == giver]:
                if excess <= 0:
                    break
                taker = self.pairs[pair, 1]
                amount = min(excess, int(np.ceil(flows[pair] - 1e-6)))
                machines, amounts = _taken(places, int(giver), amount)
                places[machines, taker] += amounts
                held[taker] += amount
                excess -= amount
            if excess > 0:
                _taken(places, int(giver), excess)
        return places


def _may(problem: Problem) -> Bools:
    """[one, other], whether a place for one takes the other; among equals only the later takes the earlier's."""
    fits = problem.fit > 0
    may: Bools = fits.astype(np.float32) @ (~fits).T.astype(np.float32) == 0
    may &= ~problem.is_capped()
    for wanted in problem.requests.T:
        may &= wanted[:, None] >= wanted[None, :]
    number = np.arange(len(problem.counts))
    may &= ~(may.T & (number[:, None] >= number[None, :]))
    return may


def _taken(places: Ints, pod_class: int, amount: int) -> tuple[Ints, Ints]:
    """Take so many places of a class away, from the last machines; which machines, and how many from each."""
    machines = np.flatnonzero(places[:, pod_class])[::-1]
    amounts = np.diff(np.minimum(np.cumsum(places[machines, pod_class]), amount), prepend=0)
    touched = amounts > 0
    places[machines[touched], pod_class] -= amounts[touched]
    return machines[touched], amounts[touched]
