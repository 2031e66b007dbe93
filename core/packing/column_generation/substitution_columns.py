"""Finds which items may take another's places: a place for a pod also holds one that requests no more and may run there.

In the master problem each such pair is a column without cost, a dual-optimal inequality on the prices of the two items.
"""

from __future__ import annotations

import msgspec
import numpy as np

from core.packing.problem import Bools, Floats, Ints, ItemIndex, PackingProblem, distributed


class Substitutions(msgspec.Struct, frozen=True, eq=False):
    """The partial order of items by what they request.

    Attributes:
        pairs: [substitution, 2], a place for the first item may go to the second; only neighbours in the order are named.
        order: [item], all items, none before one whose places it may take.
    """

    pairs: Ints
    order: Ints

    @classmethod
    def of(cls, problem: PackingProblem) -> Substitutions:
        """Return the order among a problem's items. An item with a cap takes no other's place: it could exceed the cap."""
        # Transitive reduction: a pair (a, c) is left out where some b with a → b → c exists, which is where the square of the
        # relation, as a matrix product, is positive. may: [source, substitute].
        may = _may_take(problem)
        steps = may.astype(np.float32)
        neighbours = may & ~((steps @ steps) > 0)
        return cls(np.argwhere(neighbours), np.argsort(-may.sum(axis=1), kind="stable"))

    def assigned(self, places: Ints, *, flows: Floats, demand: Ints, integrality_tolerance: float) -> Ints:
        """Assign places to pods: an item gets at most as many as it has pods, and its substitutes get the rest.

        Args:
            places: [machine, item], changed in place and returned; a place that nobody takes is left out.
            flows: [substitution], how many places the linear program passes on.
            demand: [item], pods that need a place.
            integrality_tolerance: Smaller flows count as none.
        """
        totals = places.sum(axis=0)
        passed_on = np.flatnonzero(flows > integrality_tolerance)
        passed_on = passed_on[np.argsort(-flows[passed_on], kind="stable")]
        for source in self.order:
            excess = int(totals[source] - demand[source])
            if excess <= 0:
                continue
            for pair in passed_on[self.pairs[passed_on, 0] == source]:
                if excess <= 0:
                    break
                substitute = self.pairs[pair, 1]
                amount = min(excess, int(np.ceil(flows[pair] - integrality_tolerance)))
                machines, amounts = _removed(places, ItemIndex(int(source)), amount)
                places[machines, substitute] += amounts
                totals[substitute] += amount
                excess -= amount
            if excess > 0:
                _removed(places, ItemIndex(int(source)), excess)
        return places


def _may_take(problem: PackingProblem) -> Bools:
    """[source, substitute], whether its pods may have the source's places; the later of equal items substitutes."""
    # A substitute must fit every type that the source fits: Σ_t fits[source, t] (1 - fits[substitute, t]) = 0, a matrix
    # product in float32, exact for fewer than 2^24 types. It must request no more of any resource, and have no cap.
    fits = problem.fit > 0
    may: Bools = fits.astype(np.float32) @ (~fits).T.astype(np.float32) == 0
    may &= ~problem.is_capped()
    for requested in problem.requests.T:
        may &= requested[:, None] >= requested[None, :]
    number = np.arange(len(problem.counts))
    may &= ~(may.T & (number[:, None] >= number[None, :]))
    return may


def _removed(places: Ints, item: ItemIndex, amount: int) -> tuple[Ints, Ints]:
    """Remove this many places of an item from the last machines; return the machines and how many were removed from each."""
    machines = np.flatnonzero(places[:, item])[::-1]
    amounts = distributed(amount, places[machines, item])
    touched = amounts > 0
    places[machines[touched], item] -= amounts[touched]
    return machines[touched], amounts[touched]
