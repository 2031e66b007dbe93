"""Pods left behind only for their place in the queue get another turn, before the others.

The largest pods go first, and may take what a smaller one cannot do without: the one zone, family or node that its rules
leave it. Planning anew with the smaller one first is right where nobody else loses a place by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from core.scheduling.context import Ground
from core.scheduling.greedy.scheduler import Solution, Solve
from core.scheduling.pods.pending_pods import is_virtual
from core.scheduling.pods.pod_group import Batch, PodClass
from core.scheduling.topology.topology_group import AFFINITY

TURNS_MAX: Final = 4
"""How many classes get a turn of their own, after one together."""

PODS_MAX: Final = 1_000
"""Among more pods they get one only together: a limit that is reached would multiply the planner's time."""

CLASSES_MAX: Final = 16
"""How many classes are asked whether they would gain."""

_Left = Counter[int]
"""Class of pods → how many of them have no place."""


class SecondTurn:
    """Plans for all that waits, and anew for those that are left.

    Args:
        ground: The snapshot.
        queue: Makes the queue, afresh for each plan.
    """

    def __init__(self, ground: Ground, queue: Callable[[], list[Batch]]) -> None:
        self._ground = ground
        self._queue = queue

    def solution(self) -> Solution:
        """The greedy plan, or one in which more pods have a place and nobody has lost it."""
        best = self._plan(frozenset())
        left = _left_behind(best)
        for first in self._turns(left):
            anew = self._plan(first)
            left_now = _left_behind(anew)
            if left_now < left:
                best, left = anew, left_now
        return best

    def _plan(self, first: frozenset[int], *, alone: bool = False) -> Solution:
        queue = self._queue()
        if alone:
            queue = [batch for batch in queue if batch.pod_class.index in first]
        return Solve(self._ground, queue, self._ground.leaving, frozenset(), first).run()

    def _turns(self, left: _Left) -> Iterator[frozenset[int]]:
        """Who goes first: together all classes that would gain if they were alone, then one after the other."""
        if not left:
            return
        queue = self._queue()
        classes = [batch.pod_class for batch in queue]
        late = dict.fromkeys(one for one in classes if one.index in left)
        together = [self._with_company(one, classes) for one in [*late][:CLASSES_MAX]]
        gaining = [first for first, one in zip(together, late, strict=False) if self._gains(first, one, left)]
        if gaining:
            yield frozenset().union(*gaining)
        if len(gaining) > 1 and sum(len(batch.pods) for batch in queue) <= PODS_MAX:
            yield from gaining[:TURNS_MAX]

    def _gains(self, first: frozenset[int], one: PodClass, left: _Left) -> bool:
        return _left_behind(self._plan(first, alone=True))[one.index] < left[one.index]

    def _with_company(self, one: PodClass, classes: Iterable[PodClass]) -> frozenset[int]:
        """A class with those that it must be near to and cannot do without."""
        rules = (*one.stages[0].host_rules, *one.stages[0].zone_rules)
        near = {rule.group for rule in rules if rule.kind == AFFINITY and not rule.selects_self}
        return frozenset({one.index} | {other.index for other in classes if near.intersection(other.shape.selected_by)})


def _left_behind(solution: Solution) -> _Left:
    left: _Left = Counter()
    for batch in solution.unplaced:
        if not batch.pod_class.reason and not is_virtual(batch.pods[0]):
            left[batch.pod_class.index] += batch.waiting
    return left
