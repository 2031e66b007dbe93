"""The public interface of scheduling: plans for waiting pods, and what-ifs about removed nodes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from core.model.plan import Cost, Plan, PlannedClaim
from core.model.pod import Pod
from core.model.snapshot import Snapshot
from core.packing.settings import DEFAULT_SETTINGS, SearchBudget, SearchSettings, with_groups
from core.scheduling.claim_search import Solution
from core.scheduling.context import SchedulingContext
from core.scheduling.explanation import Diagnosis
from core.scheduling.explanation_text import PodFinding
from core.scheduling.optimization.relaxed_pods import RelaxedPods, is_undercut
from core.scheduling.replanning import (
    Drains,
    Extra,
    best_of,
    cheaper_within_ec2_limits,
    commitment_contexts,
    drained,
    greedy,
    planned,
    planned_within_ec2_limits,
    with_fitting_volumes,
)
from core.scheduling.results import FindReasons, SchedulingResults, contained_reasons, scheduling_results

if TYPE_CHECKING:
    from core.scheduling.explanation_text import PodOffer


# Makes the greedy plan cheaper, and proves a lower bound on the cost of every plan.


def improved(
    context: SchedulingContext,
    solution: Solution,
    budget: SearchBudget | None,
    settings: SearchSettings,
    *,
    proves: bool = True,
) -> tuple[Solution, Cost]:
    """Return the plan, made cheaper within the budget, with its lower bound.

    Without a budget nothing is searched, and a bound that needs a solver is left out, as without `proves`.
    """
    relaxed, cost, limits = RelaxedPods(context, solution, settings), _cost(solution), settings.optimizer
    bound = relaxed.arithmetic_bound() if relaxed.pairs_max <= limits.arithmetic_pairs_max else None
    is_small = sum(relaxed.counts.values()) < limits.pods_min and len(solution.claims) < limits.claims_min
    above, below = limits.far_cost_ratio
    is_good = is_small and bound is not None and cost * below < bound * above and cost <= relaxed.separate_cost()
    is_near = bound == cost or (is_good and not any(map(is_undercut, solution.claims)))
    # The caller's clock starts at its first call: before the solver is loaded, so that loading counts.
    if budget is None or not solution.claims or is_near or budget.is_spent:
        return solution, Cost(cost, bound)
    from core.scheduling.fleet_rows import LowerBound
    from core.scheduling.optimization.repacker import Repacker

    # A large bound waits for the search, which would otherwise get no time, and is left out if little time remains.
    comes_first = relaxed.cells <= limits.bound_cells_sure
    lower_bound = LowerBound(context, relaxed, settings, budget) if proves and comes_first else None
    cheaper = Repacker(context, settings).improved(solution, budget)
    cheaper_cost = _cost(cheaper)
    if proves and not comes_first and not budget.is_past(limits.bound_begins_share_max):
        lower_bound = LowerBound(context, relaxed, settings, budget)
    if lower_bound is None:
        return cheaper, Cost(cheaper_cost, bound)
    return cheaper, Cost(cheaper_cost, max(bound or 0, lower_bound.proven(cheaper.claims, budget=budget)))


def proven_later(
    context: SchedulingContext,
    solution: Solution,
    cost: Cost,
    settings: SearchSettings,
    out_of_time: Callable[[], float] | None = None,
) -> int | None:
    """Return the lower bound of a plan that was made without the proof of `improved`; no lower than its own.

    It has steps of its own. Clusters with commitments pay less than the bound's prices for what is committed.

    Args:
        context: The context of the plan.
        solution: The plan.
        cost: Its cost, with a bound if there is one without a solver.
        settings: When to stop.
        out_of_time: Returns the elapsed share of the time for the proof.
    """
    if not solution.claims or cost.lower_bound == cost.hourly:
        return cost.lower_bound
    from core.scheduling.fleet_rows import LowerBound

    budget = SearchBudget(default_steps(solution, settings), out_of_time)
    relaxed = RelaxedPods(context, solution, settings)
    bound = LowerBound(context, relaxed, settings, budget).proven(solution.claims, budget=budget)
    return max(cost.lower_bound or 0, _less_committed(context, bound))


def _less_committed(context: SchedulingContext, bound: int) -> int:
    return max(0, bound - context.remaining.committed_worth()) if context.coverage.commitments else bound


def default_steps(solution: Solution, settings: SearchSettings) -> int:
    """Return the default number of steps. It depends only on the plan's size, so that repeated runs find the same."""
    limits = settings.optimizer
    machines = limits.default_steps_offset + len(solution.claims)
    pools = len({claim.template.index for claim in solution.claims})
    steps_min = max(limits.default_steps_min, limits.default_steps_per_pool * pools)
    return max(steps_min, limits.default_steps_machines // machines)


def _cost(solution: Solution) -> int:
    return sum(claim.price for claim in solution.claims)


# Plans the fleet without many of its nodes: places their pods, and packs the new nodes as well as possible.


R = TypeVar("R")


class DrainedFleet(msgspec.Struct, Generic[R], frozen=True, eq=False):
    """One result of the scheduler.

    Attributes:
        results: The plan with the scheduler's own new nodes.
    """

    results: R
    _context: SchedulingContext
    _solution: Solution
    _results: Callable[[Solution], R]
    _search: SearchSettings

    def packed(self, budget: SearchBudget) -> R:
        """Return the same pods on cheaper new nodes, if any are found within the budget.

        Two models of hostname rules are tried for a few steps each: as resources of machines, and as caps on each kind of pod.
        Which is better depends on how many pods such rules keep apart; without such resources both are the same, and one trial
        of as many steps stands for both. The better one gets the rest of the steps. With most of them it begins from the
        scheduler's own new nodes again: pods that the trial put together may only use the types of their new node. With the
        others it continues from the cheapest nodes found, which may have been split
        (docs/engineering/handbook/target-packing.md).
        """
        if not self._solution.claims or budget.is_spent:
            return self.results
        from core.scheduling.optimization.repacker import Repacker

        share = self._search.repack.way_trial_share
        trials: list[tuple[Solution, Repacker]] = []
        tried: tuple[Repacker, SearchBudget] | None = None
        for way in _ways(self._search, len(self._context.existing_nodes)):
            portion = budget.portion(share)
            if tried is not None and not tried[0].models_hostnames and tried[1].steps_max == portion.steps_max:
                portion = tried[1]  # as if the same search had run again
            else:
                repacker = Repacker(self._context, way)
                trials.append((repacker.improved(self._solution, portion), repacker))
                tried = repacker, portion
            budget.steps += portion.steps
        best, better = min(trials, key=lambda trial: _cost(trial[0]))
        portion = budget.portion(self._search.repack.restart_share)
        restarted = better.improved(self._solution, portion)
        budget.steps += portion.steps
        best = min(best, restarted, key=_cost)
        continued = better.improved(best, budget)
        return self._results(self._if_within_ec2_limits(min(best, continued, key=_cost)))

    def regrouped(self, new_nodes: Sequence[Mapping[str, int]], kind: Callable[[Pod], str]) -> R:
        """Return the same pods on the intended new nodes, if that is cheaper.

        Args:
            new_nodes: For each node, kind → number of pods.
            kind: Returns the kind of a pod.
        """
        if not self._solution.claims or not new_nodes:
            return self.results
        from core.scheduling.optimization.repacker import Repacker

        way = next(iter(_ways(self._search, len(self._context.existing_nodes))))
        repacked = Repacker(self._context, way).regrouped(self._solution, new_nodes, kind)
        return self._results(self._if_within_ec2_limits(repacked))

    def _if_within_ec2_limits(self, cheaper: Solution) -> Solution:
        """Return the cheaper solution if it is within EC2's quotas and free addresses, else the scheduler's, which is."""
        return cheaper_within_ec2_limits(self._context, cheaper, self._solution) or self._solution


def _ways(settings: SearchSettings, nodes: int) -> tuple[SearchSettings, SearchSettings]:
    """Return the settings of both models for a fleet. All zones are packed together: separately, each one rounds up on its own.

    Column generation packs machines with more pods than in a plan, thousands of pods on dozens of machines, and also where
    rounding comes nearer to the bound, in larger fleets with better loads and dives
    (docs/engineering/handbook/target-packing.md).
    """
    whole, target = replace(settings.repack, joint_pairs_max=sys.maxsize), settings.target
    stages = replace(
        settings.stages,
        coarse_pods_per_machine_max=target.coarse_pods_per_machine_max,
        coarse_gap_relative=target.coarse_gap_relative,
    )
    settings = replace(settings, repack=whole, stages=stages)
    if nodes >= target.improved_loads_nodes_min:
        settings = replace(
            settings,
            master_problem=target.master_problem,
            load_exchange=target.load_exchange,
            kept_machines=target.kept_machines,
        )
    return settings, replace(settings, repack=replace(whole, hostname_resources_max=0))


class BarePlan(msgspec.Struct, frozen=True, eq=False):
    """A plan, and what no launch waits for.

    Attributes:
        plan: Without reasons, and without a bound that needs a solver.
        find_reasons: Finds the reasons of pods without a place.
        prove_bound: Returns the proven bound of the plan; takes what returns the elapsed share of its time, as a search does.
    """

    plan: Plan
    find_reasons: FindReasons
    prove_bound: Callable[[Callable[[], float] | None], int | None]


class Planner:
    """Plans over one snapshot. Everything that does not depend on which nodes leave is prepared once and shared."""

    def __init__(
        self,
        snapshot: Snapshot,
        context: SchedulingContext | None = None,
        *,
        explains: bool = True,
        search: SearchSettings = DEFAULT_SETTINGS,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare the snapshot; `watch` is called often, and raises OutOfTimeError when the time for the plan is over."""
        self._search = search
        self._context = _with_groups(context or SchedulingContext(snapshot, watch=watch))
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

    def bare_plan(self, out_of_time: Callable[[], float] | None = None, *, searches: bool = True) -> BarePlan:
        """Return the plan, and what finds its reasons and proves its bound later: no launch waits for them.

        Args:
            out_of_time: As for `plan`.
            searches: Whether to search for cheaper nodes; otherwise it is the plan of `results`.
        """
        silent = Planner(self._context.snapshot, self._context, explains=False, search=self._search)
        if searches:
            plan, solution = silent._improved(out_of_time, proves=False)
        else:
            solution, _, silent._context = silent._solution(frozenset(), consolidation=False)
            plan = silent._results(solution, []).plan
        context = silent.context
        is_bounded = searches and (context.snapshot.options.improve_iterations or out_of_time is not None)
        prove_bound = partial(proven_later, context, solution, plan.cost, self._search)
        return BarePlan(
            plan,
            partial(contained_reasons, context, solution),
            prove_bound if is_bounded else lambda _: plan.cost.lower_bound,
        )

    def _improved(self, out_of_time: Callable[[], float] | None, *, proves: bool = True) -> tuple[Plan, Solution]:
        if self._context.volumes.binding.assigned_to(self._context.pending):
            self._context = _with_groups(with_fitting_volumes(self._context))
        search = partial(_searched, out_of_time=out_of_time, search=self._search, proves=proves)
        self._context, (solution, cost) = _fairly(self._context, search)
        plan = self._results(solution, []).plan
        if cost is not None:
            bound = cost.lower_bound
            if self._context.coverage.commitments:
                bound = _less_committed(self._context, bound or 0)
            cost = Cost(plan.cost.hourly, bound)  # claims may have left a zone without addresses since the search
        return (plan if cost is None else msgspec.structs.replace(plan, cost=cost)), solution

    def results(self) -> SchedulingResults:
        """Return the greedy plan with its further results."""
        solution, displaced, self._context = self._solution(frozenset(), consolidation=False)
        return self._results(solution, displaced)

    @property
    def context(self) -> SchedulingContext:
        """The snapshot, prepared for planning."""
        return self._context

    def drained(self, drains: Drains) -> DrainedFleet[SchedulingResults]:
        """Return the plan without many nodes, with intended places for their pods.

        Pending pods get their places first, as they would without the move, and new nodes of their own.
        """
        if self._context.gang_plan.is_guess:
            self.results()
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
        with_blocked: bool = False,
    ) -> SchedulingResults:
        """Return the plan if these nodes vanished and their pods had to go elsewhere.

        As in Karpenter, pods that may not be evicted now are not planned for (do-not-disrupt, a budget that never allows it,
        DaemonSets, mirror pods), the first two kinds only without `with_blocked`.

        Args:
            leaving: Names of state nodes, or of their claims; unknown names are ignored.
            consolidation: Whether displaced pods must avoid nodes whose pods changed within `consolidateAfter`.
            closed: Names of nodes, or of their claims, that stay and take no pods.
            unexplained: Keys of pods that need no reason if they are unplaced: finding reasons takes longer than planning.
            with_blocked: Whether the nodes' drain is bounded, so that all their pods leave.
        """
        gone, shut = self._positions(leaving), self._positions(closed)
        if self._context.gang_plan.is_guess:
            self.results()  # the decision about groups is that of the cluster as it is
        solution, displaced, context = self._solution(
            gone, consolidation=consolidation, closed=shut, with_blocked=with_blocked
        )
        return self._results(solution, displaced, unexplained, context)

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
        from core.scheduling.explanation_text import pod_offers

        context = self._context
        waiting_pod = next((pod for pod in (*context.pending, *context.moving) if pod.key == pod_key), None)
        return [] if waiting_pod is None else pod_offers(context, context.pod_groups.of(waiting_pod))

    def finding(self, pod_key: str) -> PodFinding | None:
        """Return the finding of `explained` without a search for cheaper nodes."""
        return self.explained(pod_key)[1]

    def _positions(self, names: Collection[str]) -> frozenset[int]:
        positions = self._context.positions
        return frozenset(positions[name] for name in names if name in positions)

    def _solution(
        self,
        gone: frozenset[int],
        *,
        consolidation: bool,
        closed: frozenset[int] = frozenset(),
        with_blocked: bool = False,
    ) -> tuple[Solution, list[Pod], SchedulingContext]:
        """Return the greedy plan within EC2's quotas and the free addresses, the pods that it displaces, and its context."""
        plan = partial(greedy, gone=gone, consolidation=consolidation, closed=closed, with_blocked=with_blocked)
        context, (solution, displaced) = _whole(self._context, plan)
        return solution, displaced, context

    def _results(
        self,
        solution: Solution,
        displaced: list[Pod],
        unexplained: Collection[str] = (),
        context: SchedulingContext | None = None,
    ) -> SchedulingResults:
        explains = (lambda pod: pod.key not in unexplained) if self._explains else (lambda _: False)
        return scheduling_results(context or self._context, solution, displaced, explains)


# Groups that start together. Most clusters have none, and load nothing of this.


def _with_groups(context: SchedulingContext) -> SchedulingContext:
    if not (context.gangs or context.booked):
        return context
    from core.scheduling.gangs import with_gangs

    return with_gangs(context)


def _whole(
    context: SchedulingContext, plan: Callable[[SchedulingContext], tuple[Solution, Extra]]
) -> tuple[SchedulingContext, tuple[Solution, Extra]]:
    if not context.gangs:
        return context, planned_within_ec2_limits(context, plan)[1]
    from core.scheduling.gangs import whole_groups

    return whole_groups(context, plan)


def _fairly(
    context: SchedulingContext, plan: Callable[[SchedulingContext], tuple[Solution, Extra]]
) -> tuple[SchedulingContext, tuple[Solution, Extra]]:
    """Return a plan without incomplete groups, which takes no place from a single pod that outranks a group."""
    if not context.gangs:
        return context, planned_within_ec2_limits(context, plan)[1]
    from core.scheduling.gangs import in_fair_turns

    return in_fair_turns(context, plan)


def _searched(
    context: SchedulingContext, out_of_time: Callable[[], float] | None, search: SearchSettings, *, proves: bool
) -> tuple[Solution, Cost | None]:
    """Return the plan for pods that need a place, and the proven bound on its cost if it was searched."""
    contexts = commitment_contexts(context, frozenset())
    return best_of([_searched_one(candidate, out_of_time, search, proves=proves) for candidate in contexts])


def _searched_one(
    context: SchedulingContext, out_of_time: Callable[[], float] | None, search: SearchSettings, *, proves: bool
) -> tuple[Solution, Cost | None]:
    solution, _ = planned(context, frozenset(), consolidation=False)
    steps = context.snapshot.options.improve_iterations
    if steps is None and out_of_time is None:
        return solution.settle_commitments(), None
    if context.gang_plan.turns:
        search = with_groups(search)
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
