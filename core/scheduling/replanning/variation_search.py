"""A best-first search for a variation of a plan that leaves fewer pods without a place."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import msgspec

from core.scheduling.replanning.plan_variation import PlanVariation
from core.scheduling.replanning.topology_conflicts import TopologyConflicts


class VariationResult(NamedTuple):
    """The result of one variation's plan.

    Attributes:
        left: How many pods have no place; a prohibitive number if the plan is not acceptable.
        signatures: Signatures that might get a place by further changes, those with the most pods first.
    """

    left: int
    signatures: tuple[int, ...]


class VariationSearch(msgspec.Struct, eq=False):
    """Repeatedly adds one change to the variation that leaves the fewest pods so far.

    Attributes:
        planned: Plans a variation.
        conflicts: The conflicts of a signature.
        plans_max: The most variations that are planned.
        idle_max: The most variations in a row without improvement.
        others: Variations that are not reached by single changes; they are planned alternately with those.
    """

    planned: Callable[[PlanVariation], VariationResult]
    conflicts: Callable[[int], TopologyConflicts]
    plans_max: int
    idle_max: int
    others: Iterator[PlanVariation]
    _queue: list[tuple[int, int, int, Iterator[PlanVariation]]] = msgspec.field(default_factory=list)

    def best(self, start: VariationResult) -> PlanVariation | None:
        """Return the variation that leaves the fewest pods, the first found among equals; None if none improves."""
        fewest, best, plans, idle = start.left, None, 0, 0
        self._extend(start, 0, 0, PlanVariation())
        for depth, variation in self._distinct():
            if plans == self.plans_max or idle == self.idle_max or not fewest:
                break
            result = self.planned(variation)
            plans, idle = plans + 1, idle + 1
            if result.left < fewest:
                fewest, best, idle = result.left, variation, 0
            self._extend(result, depth, plans, variation)
        return best

    def _distinct(self) -> Iterator[tuple[int, PlanVariation]]:
        """Yield alternately a change of the best variation and one of the others, each variation once, with its depth."""
        seen = {PlanVariation()}
        sources = [self._steps(), ((1, one) for one in self.others)]
        while sources:
            for source in tuple(sources):
                found = next((one for one in source if one[1] not in seen), None)
                if found is None:
                    sources.remove(source)
                else:
                    seen.add(found[1])
                    yield found

    def _steps(self) -> Iterator[tuple[int, PlanVariation]]:
        while self._queue:
            _, depth, _, moves = self._queue[0]
            variation = next(moves, None)
            if variation is None:
                heapq.heappop(self._queue)
            else:
                yield depth + 1, variation

    def _extend(self, result: VariationResult, depth: int, number: int, variation: PlanVariation) -> None:
        moves = [variation.neighbours(one, self.conflicts(one)) for one in result.signatures]
        heapq.heappush(self._queue, (result.left, depth, number, _by_turns(moves)))


def _by_turns(moves: Sequence[Iterator[PlanVariation]]) -> Iterator[PlanVariation]:
    """Yield the first element of each, then the second of each, and so on."""
    waiting = [*moves]
    while waiting:
        found = [(one, next(one, None)) for one in waiting]
        yield from (move for _, move in found if move is not None)
        waiting = [one for one, move in found if move is not None]
