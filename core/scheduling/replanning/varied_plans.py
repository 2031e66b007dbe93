"""Tries other orders and other zones for pods that were left without a place by rules about each other.

Zones are chosen one pod at a time: pods of one workload may take the last zone that another workload's anti-affinity allows, or
stay together although another's spread or affinity needs them apart. The search looks for a variation of the plan that places
more pods in total.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import Final

from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.guided_steps import GuidedSteps
from core.scheduling.greedy.scheduler import GreedyScheduler
from core.scheduling.greedy.solution import Solution
from core.scheduling.pods.pending_pods import is_virtual
from core.scheduling.pods.pod_group import PendingGroup, PodGroup
from core.scheduling.primitives.memo import memo
from core.scheduling.replanning.leftovers import Leftovers, is_fair, leftovers_of
from core.scheduling.replanning.plan_variation import PlanVariation, in_domain_orders
from core.scheduling.replanning.topology_conflicts import TopologyConflicts, conflicts_of
from core.scheduling.replanning.variation_search import VariationResult, VariationSearch

DRAWN_MAX: Final = 64
"""The most variations with random orders of zones for each pod."""

WORK_MAX: Final = 6_000
"""The most work of all variations together, in planned pods: one takes some 50 µs, so this is a third of a second."""

UNLIKELY_WORK_MAX: Final = 1_500
"""The same if no leftover group gains from a separate plan: variations then rarely help, and such pods may wait for days."""

IDLE_WORK_MAX: Final = 3_000
"""The most work in a row without improvement."""

PLAN_WORK: Final = 50
"""The fixed work of each plan, in pods."""

GROUPS_MAX: Final = 16
"""The most groups for which separate plans determine whether they would gain."""


class VariedPlans:
    """Variations of one plan.

    Args:
        context: The snapshot.
        queue: Creates a new queue for each plan.
    """

    def __init__(self, context: SchedulingContext, queue: Callable[[], list[PendingGroup]]) -> None:
        self._context = context
        self._queue = queue
        waiting = queue()
        self._groups: dict[int, PodGroup] = {
            pending_group.pod_group.index: pending_group.pod_group for pending_group in waiting
        }
        self._waiting: dict[int, PendingGroup] = {
            one.pod_group.index: one for one in waiting if not is_virtual(one.pods[0])
        }
        self._pods = sum(len(pending_group.pods) for pending_group in waiting)
        by_signature = {one.signature.index: one for one in self._groups.values() if one.steps}
        self._conflicts: Callable[[int], TopologyConflicts] = memo(
            lambda signature: conflicts_of(context, by_signature[signature], frozenset(by_signature))
        )

    def improved(self, solution: Solution, left: Leftovers) -> Solution:
        """Return the solution, or one that leaves fewer pods; only pods with conflicting rules may lose a place."""
        if self._plans(WORK_MAX) == 0:
            return solution
        is_likely = self._gains_alone(left)
        values = self._values(index for index in left if is_likely or self._fits_some_type(self._groups[index]))
        if not values:
            return solution
        solutions: dict[PlanVariation, Solution] = {}
        search = VariationSearch(
            planned=partial(self._result, solutions, left),
            conflicts=self._conflicts,
            plans_max=self._plans(WORK_MAX if is_likely else UNLIKELY_WORK_MAX),
            idle_max=self._plans(IDLE_WORK_MAX),
            others=in_domain_orders(values, DRAWN_MAX),
        )
        best = search.best(VariationResult(left.total(), self._signatures(left)))
        return solution if best is None else solutions[best]

    def _plans(self, work: int) -> int:
        """Return how many plans of all pods fit this work."""
        return work // (self._pods + PLAN_WORK)

    def _result(
        self, solutions: dict[PlanVariation, Solution], left: Leftovers, variation: PlanVariation
    ) -> VariationResult:
        solution = solutions[variation] = self._plan(sorted(self._queue(), key=variation.rank), variation)
        left_now = leftovers_of(solution)
        fault = 0 if is_fair(self._waiting, before=left, after=left_now) else self._pods
        return VariationResult(left_now.total() + fault, self._signatures(left_now))

    def _plan(self, queue: list[PendingGroup], variation: PlanVariation) -> Solution:
        guide = GuidedSteps(self._context.table, variation.barred, variation.round_robin, variation.order)
        return GreedyScheduler(self._context, queue, self._context.leaving, frozenset(), guide=guide).run()

    def _values(self, groups: Iterable[int]) -> dict[str, tuple[str, ...]]:
        """Return the topology keys of the groups' rules, with their values."""
        found: dict[str, tuple[str, ...]] = {}
        for index in groups:
            found.update(self._conflicts(self._groups[index].signature.index).values)
        return dict(sorted(found.items()))

    def _fits_some_type(self, pod_group: PodGroup) -> bool:
        templates = self._context.templates
        return any(template.types.room.fits(template.mask, pod_group.requests) for template in templates)

    def _gains_alone(self, left: Leftovers) -> bool:
        """Whether fewer pods of some group are left if it is planned only with the groups that its rules follow, and theirs."""
        for index in [*left][:GROUPS_MAX]:
            conflicts = self._conflicts(self._groups[index].signature.index)
            company = self._company(conflicts)
            members = {one.index for one in self._groups.values() if one.signature.index in company} | {index}
            together, apart = PlanVariation(), PlanVariation(round_robin=conflicts.round_robin())
            if conflicts.signatures:
                plans = (self._plan(self._only(members), one) for one in dict.fromkeys((together, apart)))
                if any(leftovers_of(plan)[index] < left[index] for plan in plans):
                    return True
        return False

    def _company(self, conflicts: TopologyConflicts) -> set[int]:
        """Return the signatures that rules follow, and those that these follow in turn: without them they have no place."""
        found: set[int] = set()
        unread = [conflicts]
        while unread:
            new = {one for followed in unread.pop().followed.values() for one in followed} - found
            found |= new
            unread += [self._conflicts(one) for one in sorted(new)]
        return found

    def _only(self, members: Collection[int]) -> list[PendingGroup]:
        return [pending_group for pending_group in self._queue() if pending_group.pod_group.index in members]

    def _signatures(self, left: Leftovers) -> tuple[int, ...]:
        """Return the signatures of the leftovers, the most pods first."""
        counts: Counter[int] = Counter()
        for index, count in left.items():
            counts[self._groups[index].signature.index] += count
        return tuple(sorted(counts, key=lambda signature: (-counts[signature], signature)))
