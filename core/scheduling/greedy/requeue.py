"""Retries pods that found no place only because of the order of the queue: they go before the others.

The largest pods go first, and may take what a smaller one cannot do without: the one zone, family or node that its rules
leave it. A second plan with the smaller one first is kept where no other pod loses its place by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.scheduler import GreedyScheduler, Solution
from core.scheduling.pods.pending_pods import is_virtual
from core.scheduling.pods.pod_group import PendingGroup, PodGroup
from core.scheduling.topology.topology_group import AFFINITY

RETRIES_MAX: Final = 4
"""Most groups that are retried one by one, after a retry of all together."""

PODS_MAX: Final = 1_000
"""Among more pods they are retried only together: where a NodePool's limit is reached, each retry costs a whole plan."""

GROUPS_MAX: Final = 16
"""Most groups for which a plan of their own tells whether they would gain."""

_Left = Counter[int]
"""Group of pods → how many of them have no place."""


class RequeuingScheduler:
    """Plans for all pods that wait, and again with those first that found no place.

    Args:
        context: The snapshot.
        queue: Makes a new queue for each plan.
    """

    def __init__(self, context: SchedulingContext, queue: Callable[[], list[PendingGroup]]) -> None:
        self._context = context
        self._queue = queue

    def solution(self) -> Solution:
        """The greedy plan, or one in which more pods have a place and none has lost it."""
        best = self._plan(frozenset())
        left = _left_behind(best)
        for first in self._retries(left):
            again = self._plan(first)
            left_now = _left_behind(again)
            if left_now < left:
                best, left = again, left_now
        return best

    def _plan(self, first: frozenset[int], *, alone: bool = False) -> Solution:
        queue = self._queue()
        if alone:
            queue = [pending_group for pending_group in queue if pending_group.pod_group.index in first]
        return GreedyScheduler(self._context, queue, self._context.leaving, frozenset(), first).run()

    def _retries(self, left: _Left) -> Iterator[frozenset[int]]:
        """Which groups go first: all that would gain if they were alone, together, then one after the other."""
        if not left:
            return
        queue = self._queue()
        pod_groups = [pending_group.pod_group for pending_group in queue]
        late = dict.fromkeys(one for one in pod_groups if one.index in left)
        together = [self._with_required(one, pod_groups) for one in [*late][:GROUPS_MAX]]
        gaining = [first for first, one in zip(together, late, strict=False) if self._gains(first, one, left)]
        if gaining:
            yield frozenset().union(*gaining)
        if len(gaining) > 1 and sum(len(pending_group.pods) for pending_group in queue) <= PODS_MAX:
            yield from gaining[:RETRIES_MAX]

    def _gains(self, first: frozenset[int], one: PodGroup, left: _Left) -> bool:
        return _left_behind(self._plan(first, alone=True))[one.index] < left[one.index]

    def _with_required(self, one: PodGroup, pod_groups: Iterable[PodGroup]) -> frozenset[int]:
        """A group with those that its pods must be near and cannot do without."""
        rules = (*one.steps[0].host_rules, *one.steps[0].zone_rules)
        near = {rule.group for rule in rules if rule.kind == AFFINITY and not rule.selects_self}
        return frozenset(
            {one.index} | {other.index for other in pod_groups if near.intersection(other.signature.selected_by)}
        )


def _left_behind(solution: Solution) -> _Left:
    left: _Left = Counter()
    for pending_group in solution.unplaced:
        if not pending_group.pod_group.reason and not is_virtual(pending_group.pods[0]):
            left[pending_group.pod_group.index] += pending_group.waiting
    return left
