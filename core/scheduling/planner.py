"""The public interface of scheduling: plans for waiting pods, and what-ifs about removed nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from core.model.plan import Cost, Plan, PlannedClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS, SearchSettings
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation.diagnosis import Diagnosis
from core.scheduling.explanation.findings import PodFinding
from core.scheduling.greedy.solution import Solution
from core.scheduling.optimization.optimizer import default_steps, improved
from core.scheduling.plan_output import SchedulingResults, scheduling_results
from core.scheduling.replanning.ec2_limits import (
    best_of,
    cheaper_within_ec2_limits,
    commitment_contexts,
    planned_within_ec2_limits,
)
from core.scheduling.replanning.greedy_plans import Drains, drained, greedy, planned

if TYPE_CHECKING:
    from core.scheduling.explanation.pod_offers import PodOffer
    from core.scheduling.optimization.drained_fleet import DrainedFleet


class Planner:
    """Plans over one snapshot. Everything that does not depend on which nodes leave is prepared once and shared."""

    def __init__(
        self,
        snapshot: Snapshot,
        context: SchedulingContext | None = None,
        *,
        explains: bool = True,
        search: SearchSettings = DEFAULT_SETTINGS,
    ) -> None:
        self._search = search
        self._context = context or SchedulingContext(snapshot)
        self._explains = explains

    @property
    def pods(self) -> int:
        """How many pods need a place: pending pods, and pods of leaving nodes."""
        return len(self._context.pending) + len(self._context.moving)

    def pinned(
        self,
        leaving: Collection[str],
        slots: Mapping[str, int] = MappingProxyType({}),
        new_nodes: Mapping[str, PlannedClaim] = MappingProxyType({}),
    ) -> Planner:
        """Return the same planner with pods of these nodes kept in the domains where rules count them.

        Its plans have no reasons.

        Args:
            leaving: The nodes.
            slots: Pod → position of its intended node, which may be in another domain.
            new_nodes: Pod → the new node that is intended for it, which may be launched in another domain.
        """
        positions = sorted(self._context.positions[name] for name in leaving)
        return Planner(self._context.snapshot, self._context.pinned(positions, slots, new_nodes), explains=False)

    def below(self, price: int) -> Planner:
        """Return the same planner with new nodes restricted to types that cost less than `price`, nano-dollars per hour.

        Its plans have no reasons for unplaced pods, since users could not act on them.
        """
        return Planner(self._context.snapshot, self._context.below(price), explains=False)

    def without_reasons(self) -> Planner:
        """Return the same planner without reasons for unplaced pods."""
        return Planner(self._context.snapshot, self._context, explains=False)

    def plan(self, out_of_time: Callable[[], float] | None = None, *, proves: bool = True) -> Plan:
        """Return the plan for pending pods and for pods of leaving nodes.

        Args:
            out_of_time: Ends the search for cheaper nodes before its bound on steps: `options.improve_iterations`, or a default
                by the plan's size. Returns the elapsed share of its time. If neither is set, the result is the greedy plan
                without a proven bound.
            proves: Whether to compute the bound of a searched plan, which changes nothing else.
        """
        return self._improved(out_of_time, proves=proves)[0]

    def _improved(self, out_of_time: Callable[[], float] | None, *, proves: bool = True) -> tuple[Plan, Solution]:
        _, (solution, cost) = planned_within_ec2_limits(
            self._context, partial(_searched, out_of_time=out_of_time, search=self._search, proves=proves)
        )
        plan = self._results(solution, []).plan
        if cost is not None:
            bound = cost.lower_bound
            if self._context.coverage.commitments:
                bound = max(0, (bound or 0) - self._context.remaining.committed_worth())
            cost = Cost(plan.cost.hourly, bound)  # claims may have left a zone without addresses since the search
        return (plan if cost is None else msgspec.structs.replace(plan, cost=cost)), solution

    def results(self) -> SchedulingResults:
        """Return the greedy plan with its further results."""
        return self._results(*self._solution(frozenset(), consolidation=False))

    @property
    def context(self) -> SchedulingContext:
        """The snapshot, prepared for planning."""
        return self._context

    def drained(self, drains: Drains) -> DrainedFleet[SchedulingResults]:
        """Return the plan without many nodes, with intended places for their pods.

        Pending pods get their places first, as they would without the move, and new nodes of their own.
        """
        from core.scheduling.optimization.drained_fleet import DrainedFleet

        context, (solution, displaced) = planned_within_ec2_limits(self._context, partial(drained, drains=drains))
        results = partial(self._results, displaced=displaced)
        return DrainedFleet(results(solution), context, solution, results, self._search)

    def what_if(
        self,
        leaving: Collection[str],
        *,
        consolidation: bool,
        closed: Collection[str] = (),
        unexplained: Collection[str] = (),
    ) -> SchedulingResults:
        """Return the plan if these nodes vanished and their pods had to go elsewhere.

        As in Karpenter, pods that may not be evicted now are not planned for (do-not-disrupt, a budget that never allows it,
        DaemonSets, mirror pods).

        Args:
            leaving: Names of state nodes, or of their claims; unknown names are ignored.
            consolidation: Whether displaced pods must avoid nodes whose pods changed within `consolidateAfter`.
            closed: Names of nodes, or of their claims, that stay and take no pods.
            unexplained: Keys of pods that need no reason if they are unplaced: finding reasons takes longer than planning.
        """
        found = self._solution(self._positions(leaving), consolidation=consolidation, closed=self._positions(closed))
        return self._results(*found, unexplained)

    def explained(self, pod_key: str, out_of_time: Callable[[], float] | None = None) -> tuple[Plan, PodFinding | None]:
        """Return the plan, and the finding about a pod over all NodePools after all pods are placed.

        The finding is None for a pod that is not planned for. `out_of_time` is as for `plan`, so that both agree.
        """
        plan, solution = self._improved(out_of_time)
        context = self._context
        waiting = {pod.key: pod for pod in (*context.pending, *context.moving)}
        pod = waiting.get(pod_key)
        if pod is None:
            return plan, None
        return plan, Diagnosis(context, solution).of(context.pod_groups.of(pod), pod)

    def offers(self, pod_key: str) -> list[PodOffer]:
        """Return the prices of new nodes for a pod alone that needs a place, the cheapest first."""
        from core.scheduling.explanation.pod_offers import pod_offers

        context = self._context
        found = next((pod for pod in (*context.pending, *context.moving) if pod.key == pod_key), None)
        return [] if found is None else pod_offers(context, context.pod_groups.of(found))

    def finding(self, pod_key: str) -> PodFinding | None:
        """Return the finding of `explained` without a search for cheaper nodes."""
        return self.explained(pod_key)[1]

    def _positions(self, names: Collection[str]) -> frozenset[int]:
        positions = self._context.positions
        return frozenset(positions[name] for name in names if name in positions)

    def _solution(
        self, gone: frozenset[int], *, consolidation: bool, closed: frozenset[int] = frozenset()
    ) -> tuple[Solution, list[Pod]]:
        """Return the greedy plan within EC2's quotas and the free addresses, and the pods that it displaces."""
        return planned_within_ec2_limits(
            self._context, partial(greedy, gone=gone, consolidation=consolidation, closed=closed)
        )[1]

    def _results(
        self, solution: Solution, displaced: list[Pod], unexplained: Collection[str] = ()
    ) -> SchedulingResults:
        explains = (lambda pod: pod.key not in unexplained) if self._explains else (lambda _: False)
        return scheduling_results(self._context, solution, displaced, explains)


def _searched(
    context: SchedulingContext, out_of_time: Callable[[], float] | None, search: SearchSettings, *, proves: bool
) -> tuple[Solution, Cost | None]:
    """Return the plan for pods that need a place, and the proven bound on its cost if it was searched."""
    contexts = commitment_contexts(context, frozenset())
    return best_of([_searched_one(one, out_of_time, search, proves=proves) for one in contexts])


def _searched_one(
    context: SchedulingContext, out_of_time: Callable[[], float] | None, search: SearchSettings, *, proves: bool
) -> tuple[Solution, Cost | None]:
    solution, _ = planned(context, frozenset(), consolidation=False)
    steps = context.snapshot.options.improve_iterations
    if steps is None and out_of_time is None:
        return solution.settle_commitments(), None
    steps_max = default_steps(solution, search) if steps is None else steps
    budget = SearchBudget(steps_max, out_of_time) if steps_max else None
    cheaper, cost = improved(context, solution, budget, search, proves=proves)
    return cheaper_within_ec2_limits(context, cheaper, solution) or cheaper.settle_commitments(), cost


def schedule(snapshot: Snapshot, out_of_time: Callable[[], float] | None = None) -> Plan:
    """Return where every pending pod goes, which nodes to launch, and why some pods stay unplaced.

    Args:
        snapshot: The cluster.
        out_of_time: As for `Planner.plan`.
    """
    return Planner(snapshot).plan(out_of_time)
