"""A best-first search over variations of a plan for one that leaves fewer pods without a place."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from core.scheduling.replanning.plan_variation import PlanVariation
from core.scheduling.replanning.topology_conflicts import TopologyConflicts


class VariationOutcome(NamedTuple):
    """The result of one variation's plan.

    Attributes:
        left: How many pods have no place; many more where the plan is not acceptable.
        signatures: Those that might get a place by further changes, the most pods first.
    """

    left: int
    signatures: tuple[int, ...]


@dataclass(eq=False)
class VariationSearch:
    """Repeatedly changes the variation that leaves the fewest pods so far by one more step.

    Attributes:
        planned: Plans a variation.
        conflicts: The conflicts of a signature.
        plans_max: Most variations that are planned.
        idle_max: Most of them in a row that leave no fewer pods.
        goal: No plan leaves fewer pods than this.
    """

    planned: Callable[[PlanVariation], VariationOutcome]
    conflicts: Callable[[int], TopologyConflicts]
    plans_max: int
    idle_max: int
    goal: int
    _queue: list[tuple[int, int, int, Iterator[PlanVariation]]] = field(default_factory=list)

    def best(self, start: VariationOutcome) -> PlanVariation | None:
        """The variation that leaves the fewest pods, the earliest found among equals; None where none leaves fewer."""
        fewest, best, plans, idle = start.left, None, 0, 0
        seen = {PlanVariation()}
        self._extend(start, 0, 0, PlanVariation())
        while self._queue and plans < self.plans_max and idle < self.idle_max and fewest > self.goal:
            _, depth, _, moves = self._queue[0]
            variation = next((one for one in moves if one not in seen), None)
            if variation is None:
                heapq.heappop(self._queue)
                continue
            seen.add(variation)
            outcome = self.planned(variation)
            plans, idle = plans + 1, idle + 1
            if outcome.left < fewest:
                fewest, best, idle = outcome.left, variation, 0
            self._extend(outcome, depth + 1, plans, variation)
        return best

    def _extend(self, outcome: VariationOutcome, depth: int, number: int, variation: PlanVariation) -> None:
        moves = [variation.neighbours(one, self.conflicts(one)) for one in outcome.signatures]
        heapq.heappush(self._queue, (outcome.left, depth, number, _by_turns(moves)))


def _by_turns(moves: Sequence[Iterator[PlanVariation]]) -> Iterator[PlanVariation]:
    """Yield the first of each, then the second of each, and so on."""
    waiting = [*moves]
    while waiting:
        found = [(one, next(one, None)) for one in waiting]
        yield from (move for _, move in found if move is not None)
        waiting = [one for one, move in found if move is not None]
