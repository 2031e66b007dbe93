"""Plans again if one order of placement is not enough.

Pods that one node could hold are planned a second time as if they had to share it: otherwise, the first pod may choose a domain
where a node for it alone is cheap, but a node for all of them is not. The first plan compares each choice of a domain with the
one that the second plan would make; if none differs, both plans are the same, and the second is not made.

Large pods are placed first, and may take the only zone, family or node that a smaller pod's rules allow. A second plan with the
smaller pod first is used if no other pod loses its place. If pods' rules about each other are the cause, `VariedPlans` searches
further.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.greedy.solution import Solution
from core.scheduling.pods.pod_group import PendingGroup, PodGroup
from core.scheduling.replanning.leftovers import Leftovers, leftovers_of
from core.scheduling.replanning.varied_plans import GROUPS_MAX, VariedPlans
from core.scheduling.topology.topology_group import AFFINITY

RETRIES_MAX: Final = 4
"""The most groups that are retried one by one, after a retry of all together."""

PODS_MAX: Final = 1_000
"""With more pods, groups are retried only together: at a NodePool's limit, each retry costs a whole plan."""

SHARING_PODS_MAX: Final = 110
"""More pods are not planned on one node as well: a kubelet runs 110 by default, though some types have room for a thousand.

The second plan takes some 50 µs a pod with 400 types, and 110 µs with 800.
"""


class RequeuingScheduler:
    """Plans for all waiting pods, and again with unplaced pods first.

    Args:
        context: The snapshot.
        queue: Creates a new queue for each plan.
    """

    def __init__(self, context: SchedulingContext, queue: Callable[[], list[PendingGroup]]) -> None:
        self._context = context
        self._queue = queue

    def solution(self) -> Solution:
        """Return the greedy plan, or one that places more pods, or leaves the same pods over and costs less."""
        best = self._plan(frozenset(), compares_sharing=True)
        left = leftovers_of(best)
        if not best.is_same_if_shared and self._may_share_node(best):
            again = self._plan(frozenset(), shares_node=True)
            left_now = leftovers_of(again)
            if left_now < left or (left_now == left and _cost(again) < _cost(best)):
                best, left = again, left_now
        for first in self._retries(left):
            again = self._plan(first)
            left_now = leftovers_of(again)
            if left_now < left:
                best, left = again, left_now
        return VariedPlans(self._context, self._queue).improved(best, left) if left else best

    def _may_share_node(self, best: Solution) -> bool:
        """Whether some type has room for the few pods that no existing node takes, and rules leave them a choice of domains."""
        waiting = [group.pod_group for group in best.unplaced for _ in range(group.waiting)]
        groups = [group for claim in best.claims for group in claim.pod_groups] + waiting
        if not 2 <= len(groups) <= SHARING_PODS_MAX or not any(
            step.keys for group in dict.fromkeys(groups) for step in group.steps
        ):
            return False
        total = self._context.axis.total(group.requests for group in groups)
        return any(template.types.room.fits(template.mask, total) for template in self._context.templates)

    def _plan(
        self,
        first: frozenset[int],
        *,
        alone: bool = False,
        shares_node: bool = False,
        compares_sharing: bool = False,
    ) -> Solution:
        queue = self._queue()
        if alone:
            queue = [pending_group for pending_group in queue if pending_group.pod_group.index in first]
        compares = compares_sharing and sum(len(group.pods) for group in queue) <= SHARING_PODS_MAX
        return GreedyScheduler(
            self._context,
            queue,
            self._context.leaving,
            frozenset(),
            first,
            shares_node=shares_node,
            compares_sharing=compares,
        ).run()

    def _retries(self, left: Leftovers) -> Iterator[frozenset[int]]:
        """Yield the groups to place first: all that would gain from a separate plan together, then one by one."""
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

    def _gains(self, first: frozenset[int], one: PodGroup, left: Leftovers) -> bool:
        return leftovers_of(self._plan(first, alone=True))[one.index] < left[one.index]

    def _with_required(self, one: PodGroup, pod_groups: Iterable[PodGroup]) -> frozenset[int]:
        """Return a group together with those that its pods must be near."""
        rules = (*one.steps[0].host_rules, *one.steps[0].zone_rules)
        near = {rule.group for rule in rules if rule.kind == AFFINITY and not rule.selects_self}
        return frozenset(
            {one.index} | {other.index for other in pod_groups if near.intersection(other.signature.selected_by)}
        )


def _cost(solution: Solution) -> int:
    return sum(claim.price for claim in solution.claims)
