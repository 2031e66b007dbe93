"""Replaces a plan's new nodes by cheaper ones that keep every rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np
from msgspec.structs import replace

from core.model.pod import Pod
from core.packing.optimize import OptimizedPacking, improve, round_only
from core.packing.problem import Ints, distinct_loads
from core.packing.relaxation import PreparedProblem, prepared_like, prepared_with_flexibility
from core.packing.settings import SearchBudget, SearchSettings
from core.scheduling.claim_search import Solution
from core.scheduling.constraints.registry import PlanConstraints
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import InFlightClaim, NodeClaimTemplate
from core.scheduling.optimization.claims import (
    ClaimBuilder,
    keeps_counts,
    recounted,
    regrouped,
    replaces_within_limits,
    separate_claims,
)
from core.scheduling.optimization.items import HostnameCaps, ItemExtraction, MovablePods, RepackScope
from core.scheduling.optimization.relaxed_pods import ItemGroup, is_undercut
from core.scheduling.optimization.subproblem import Subproblem
from core.scheduling.optimization.zones import ZoneSplit
from core.scheduling.pods import PendingGroup, PodGroup, RelaxationStep
from core.scheduling.primitives import IMPOSSIBLE

# Takes over loads from another zone's subproblem: machines there hold much the same pods at much the same prices.


_Identity = tuple[object, ...]


class ZoneLoads(msgspec.Struct, frozen=True, eq=False):
    """Possible loads of machines of another subproblem.

    Attributes:
        groups: The other's item groups, in the order of its items.
        loads: [load, item], how many items of each group one machine holds.
    """

    groups: Sequence[ItemGroup]
    loads: Ints


def loads_from(other: ZoneLoads, groups: Sequence[ItemGroup], counts: Ints) -> Ints:
    """[load, item], the loads without pods that are not here.

    Args:
        other: Loads of another subproblem.
        groups: This one's item groups, in the order of its items.
        counts: [item], how many pods of the item are here.
    """
    # here[k] is the item whose pods other.loads[:, k] are, -1 for none; no load has more of an item than there are.
    numbers = {identity: number for number, identity in enumerate(_identities(groups))}
    here = np.array([numbers.get(identity, -1) for identity in _identities(other.groups)], dtype=np.int64)
    loads = np.zeros((len(other.loads), len(groups)), dtype=np.int64)
    loads[:, here[here >= 0]] = other.loads[:, here >= 0]
    return np.minimum(loads, counts)


def _identities(groups: Sequence[ItemGroup]) -> list[tuple[_Identity, int]]:
    """[item], the group without its requirements, which name the zone, and how many equal groups come before it."""
    before: dict[_Identity, int] = {}
    counts: list[tuple[_Identity, int]] = []
    for group in groups:
        options = tuple((option.template_index, option.allowed) for option in group.options)
        identity: _Identity = (
            group.requests,
            group.is_fixed,
            options,
            group.hostname_requests,
            group.per_machine_max,
            group.capped_by,
        )
        counts.append((identity, before.get(identity, 0)))
        before[identity] = before.get(identity, 0) + 1
    return counts


# Divides a search's budget between the subproblems of a plan, and continues with those that are far from their bound.


class SubproblemSearch:
    """The best packing of one subproblem so far.

    A large zone begins with the loads that were found for others; its columns are searched once. If it has the same
    machine types as the largest zone, it also takes over the prices of that zone's resources, and is not rounded
    (docs/engineering/handbook/packing.md).

    Attributes:
        ready: The problem with its relaxation; None if it is not searched, for which it may be too late.
        is_large_zone: Whether it is such a zone.
        is_given_up: Whether its first search was left out or given up for want of time.
    """

    def __init__(
        self,
        subproblem: Subproblem,
        budget: SearchBudget,
        settings: SearchSettings,
        model: SubproblemSearch | None = None,
        *,
        is_one_of_many: bool = False,
    ) -> None:
        """Prepare the search; `model` is that of a large zone whose prices it may take over.

        If it is late, a subproblem that is one of many is not searched, nor one of many items if much of the time is over.
        """
        self._subproblem = subproblem
        self._best: OptimizedPacking | None = None
        self.ready: PreparedProblem | None = None
        self.is_given_up = False
        self._is_long = len(subproblem.counts) > settings.stages.sure_items_max
        begins_late = self._is_long and budget.is_past(settings.stages.long_begins_share_max)
        is_searched = not (begins_late or (is_one_of_many and budget.is_late))
        if is_searched and subproblem.zone and model is not None and model.ready is not None:
            self.ready = prepared_like(subproblem.problem(), model.ready, settings)
        self._model = model if self.ready is not None else None
        # Machines with a price of zero have no ratio of value to price: such subproblems are not searched.
        if is_searched and self.ready is None and subproblem.problem().prices.all():
            self.ready = subproblem.prepared(settings, budget)
        self.is_large_zone = bool(
            self.ready is not None
            and subproblem.zone
            and self.ready.fluid.machines.sum() >= settings.large_zones.machines_min
        )
        self._settings = _for_large_zones(settings) if self.is_large_zone else settings

    @property
    def gap(self) -> int:
        """Return the possible further saving in nano-dollars per hour; zero if it is too small to continue."""
        if self.ready is None:
            return 0
        if self._best is None:
            bound = int(self.ready.fluid.lower_bound)
            return bound + 1 if self._model is None else int(bound * self._model.gap_relative) + 1
        if self._best.is_settled or (self.is_large_zone and len(self._best.loads)):
            return 0
        bound = self._best.lower_bound
        gap = self._best.packing.cost(self.ready.problem) - bound
        return gap if gap > bound * self._settings.repack.stop_gap_relative else 0

    @property
    def gap_relative(self) -> float:
        """The gap as a share of the bound; one before the first search."""
        if self._best is None or self.ready is None:
            return 1.0
        return self._best.packing.cost(self.ready.problem) / max(self._best.lower_bound, 1) - 1

    @property
    def is_begun(self) -> bool:
        """Whether there is a packing of it. If there is, other subproblems of the same claims need one, too."""
        return self._best is not None

    @property
    def waits(self) -> bool:
        """Whether it waits for the loads of others."""
        return self._best is None and self.ready is not None and not self.ready.is_relaxed

    @property
    def loads(self) -> ZoneLoads | None:
        """The loads that column generation found, for other subproblems."""
        if self._best is None or not len(self._best.loads):
            return None
        return ZoneLoads(list(self._subproblem.counts), self._best.loads)

    def give_up_if_late(self, budget: SearchBudget) -> bool:
        """Give up the first search of many items if it would not end in time, and return whether it is given up.

        Only to state the present packing again takes a tenth of a second.
        """
        self.is_given_up = self.is_given_up or (self._is_long and self._best is None and budget.is_late)
        return self.is_given_up

    def advance(self, seed: int, budget: SearchBudget, *, is_quick: bool, elsewhere: Sequence[ZoneLoads] = ()) -> bool:
        """Search once, and return whether it found anything cheaper. Loads of other subproblems become columns too."""
        if self.ready is None:
            return False
        if not self.ready.is_relaxed and (not elsewhere or budget.time_is_over):
            self.ready = prepared_with_flexibility(self.ready.problem, self._settings, budget)
        problem, before = self.ready.problem, self._best
        start = before.packing if before else self._subproblem.incumbent(problem)
        if is_quick:
            self._best = round_only(
                self.ready, start, seed=seed, budget=budget, settings=self._settings, pairs=not self.is_large_zone
            )
        else:
            groups, counts = list(self._subproblem.counts), self.ready.reduced.counts
            loads = [loads_from(claim, groups, counts) for claim in elsewhere] if self.is_large_zone else []
            self._best = improve(
                self.ready,
                start,
                seed=seed,
                budget=budget,
                settings=self._settings,
                known=before.known if before else (),
                loads=distinct_loads(np.concatenate(loads)) if loads else None,
            )
        if (
            before is None
            and self._is_long
            and self._best.packing.cost(problem) >= start.cost(problem)
            and budget.is_late
        ):
            self._best, self.is_given_up = None, True
        if self._best is None:
            return False
        return before is None or self._best.packing.cost(problem) < before.packing.cost(problem)

    def claims(self) -> list[InFlightClaim]:
        """Return claims for the packing found, none if there is none."""
        if self.ready is None or self._best is None:
            return []
        return self._subproblem.claims_of(self.ready.problem, self._best.packing)


def search(
    subproblems: Iterable[Subproblem], *, seed: int, budget: SearchBudget, settings: SearchSettings
) -> list[SubproblemSearch]:
    """Search every subproblem, repeatedly while that saves money and the budget lasts.

    With several subproblems, the quick stages of all run before the slow ones, except of zones that wait for loads: these are
    rounded only if the budget ends before. The rest of the budget is divided in proportion to the gaps.
    """
    searches = _prepared(list(subproblems), budget, settings)
    for number in range(settings.repack.rounds_max):
        is_quick = number == 0 and len(searches) > 1
        among = [subsearch for subsearch in searches if subsearch.gap and not (is_quick and subsearch.waits)]
        widest_first = sorted(among, key=lambda subsearch: (subsearch.waits, -subsearch.gap))
        gaps = [subsearch.gap for subsearch in widest_first]
        saved = any(subsearch.waits for subsearch in searches)
        for position, subsearch in enumerate(widest_first):
            if not any(other.is_begun for other in searches) and subsearch.give_up_if_late(budget):
                continue
            portion = budget.portion(gaps[position] / sum(gaps[position:]))
            elsewhere = [other.loads for other in searches if other is not subsearch and other.loads is not None]
            saved |= subsearch.advance(seed + number, portion, is_quick=is_quick, elsewhere=elsewhere)
            # Steps that a large zone leaves are not taken by others.
            is_used_up = subsearch.is_large_zone and not is_quick
            budget.steps += (portion.steps_max or 0) if is_used_up else portion.steps
        if not saved or budget.is_spent:
            break
    for subsearch in searches:
        if subsearch.waits and (any(other.is_begun for other in searches) or not subsearch.give_up_if_late(budget)):
            subsearch.advance(seed, SearchBudget(settings.stages.roundings_sure, budget.out_of_time), is_quick=True)
    return searches


def _prepared(
    subproblems: Sequence[Subproblem], budget: SearchBudget, settings: SearchSettings
) -> list[SubproblemSearch]:
    """Return the searches, in the order of the subproblems; the zone with the most pods is the model of the others."""
    largest_first = sorted(range(len(subproblems)), key=lambda number: -sum(subproblems[number].counts.values()))
    are_many = len(subproblems) > settings.repack.sure_subproblems_max
    searches: dict[int, SubproblemSearch] = {}
    for number in largest_first:
        model = next((prepared for prepared in searches.values() if prepared.is_large_zone), None)
        searches[number] = SubproblemSearch(subproblems[number], budget, settings, model, is_one_of_many=are_many)
    return [searches[number] for number in range(len(subproblems))]


def _for_large_zones(settings: SearchSettings) -> SearchSettings:
    """Return the settings with which a large zone is searched."""
    limits = settings.large_zones
    generation = replace(settings.column_generation, stop_gap_relative=limits.stop_gap_relative)
    stages = replace(settings.stages, column_pairs_max=limits.column_pairs_max)
    two_type = replace(settings.two_type, pairs_rounded_max=limits.pairs_rounded_max)
    idle_dives_max = settings.diving.idle_dives_max if limits.repeats_dives else 0
    diving = replace(settings.diving, idle_dives_max=idle_dives_max, part_pods_min=limits.part_pods_min)
    return replace(settings, column_generation=generation, stages=stages, two_type=two_type, diving=diving)


# Finds the NodePools that could launch nodes for pods without a place.


def templates_in_demand(context: SchedulingContext, unplaced: Iterable[PendingGroup]) -> frozenset[int]:
    """Return the indexes of templates that could launch a node for one of the pods if their limits and other pods let them.

    Taints, requirements and size decide. A pod that no change of claims could help demands no template.
    """
    templates = set[int]()
    for pod_group in (pending.pod_group for pending in unplaced if not pending.pod_group.refusal):
        for step in pod_group.steps:
            for template, is_tolerated in zip(context.templates, context.open_templates(step), strict=True):
                if template.index not in templates and is_tolerated and _suits(context, template, pod_group, step):
                    templates.add(template.index)
    return frozenset(templates)


def _suits(context: SchedulingContext, template: NodeClaimTemplate, pod_group: PodGroup, step: RelaxationStep) -> bool:
    """Whether a type of the template meets the pods' requirements at this step, and has room for one of them."""
    types = template.types
    narrowed = (context.table.narrowed(template.offered, required=alternative) for alternative in step.alternatives)
    return any(
        number != IMPOSSIBLE and types.room.fits(types.mask(number) & template.mask, pod_group.requests)
        for number in narrowed
    )


class _Replaceable(msgspec.Struct, frozen=True, eq=False):
    """Claims of one scope that may be replaced, and the movable sets of pods of each."""

    scope: RepackScope
    claims: list[InFlightClaim]
    nodes: list[list[MovablePods]]


class _Task(msgspec.Struct, frozen=True, eq=False):
    """A solution taken apart, to be packed again.

    Attributes:
        solution: The solution.
        kept: Its claims that stay unchanged.
        replaceable: The others.
        subproblems: Those of each scope.
    """

    solution: Solution
    kept: list[InFlightClaim]
    replaceable: list[_Replaceable]
    subproblems: list[list[Subproblem]]


class Repacker:
    """Searches for cheaper nodes under one model of the rules.

    Attributes:
        models_hostnames: Whether the last search had hostname groups as resources of machines.
    """

    def __init__(self, context: SchedulingContext, settings: SearchSettings) -> None:
        self._context = context
        self._settings = settings
        self.models_hostnames = False
        self._hostname_caps = HostnameCaps(context.topology.groups)
        self._extraction = ItemExtraction(context, self._hostname_caps)
        self._last: _Task | None = None

    def improved(self, solution: Solution, budget: SearchBudget) -> Solution:
        """Return the solution with cheaper claims, or unchanged. Limits are charged again.

        A further search of the same solution takes nothing apart again.
        """
        if budget.is_spent:
            return solution
        if self._last is None or self._last.solution is not solution:
            self._last = self._task(solution, budget)
        task = self._last
        subproblems = [subproblem for of_scope in task.subproblems for subproblem in of_scope]
        self.models_hostnames = any(subproblem.models_hostnames for subproblem in subproblems)
        seed = self._context.snapshot.options.seed
        searches = search(subproblems, seed=seed, budget=budget, settings=self._settings)
        if all(subsearch.ready is None or subsearch.is_given_up for subsearch in searches):
            return self._separated(solution)
        claims = iter([subsearch.claims() for subsearch in searches])
        cheaper: list[list[InFlightClaim]] = []
        for of_scope in task.subproblems:
            parts = [next(claims) for _ in of_scope]
            cheaper.append([claim for part in parts for claim in part] if all(parts) else [])
        return self._separated(self._replaced(solution, task.kept, task.replaceable, cheaper))

    def _task(self, solution: Solution, budget: SearchBudget) -> _Task:
        kept, replaceable = self._taken_apart(solution)
        subproblems = [self._subproblems(subproblem.scope, subproblem.nodes, budget) for subproblem in replaceable]
        return _Task(solution, kept, replaceable, subproblems)

    def regrouped(
        self, solution: Solution, new_nodes: Sequence[Mapping[str, int]], kind: Callable[[Pod], str]
    ) -> Solution:
        """Return the solution with the intended claims, or unchanged if these are not cheaper or not allowed.

        Args:
            solution: The solution.
            new_nodes: For each node, kind → number of pods.
            kind: Returns the kind of a pod.
        """
        kept, replaceable = self._taken_apart(solution)
        regrouped_claims = [
            regrouped(
                ClaimBuilder(self._context, subproblem.scope, self._settings.repack), subproblem.nodes, new_nodes, kind
            )
            for subproblem in replaceable
        ]
        return self._replaced(solution, kept, replaceable, regrouped_claims)

    def _separated(self, solution: Solution) -> Solution:
        """Return the solution with claims split into one node per pod where that is cheaper, if rules and limits allow it."""
        costly = [claim for claim in solution.claims if is_undercut(claim)]
        if not costly:
            return solution
        _, taken = self._taken_apart(replace(solution, claims=costly))
        single_claims = [_Replaceable(part.scope, [claim], []) for part in taken for claim in part.claims]
        constraints, repack = solution.state.constraints, self._settings.repack
        separated = [
            separate_claims(ClaimBuilder(self._context, part.scope, repack), constraints, part.claims[0])
            for part in single_claims
        ]
        replaced = {part.claims[0].index for part in single_claims}
        kept = [claim for claim in solution.claims if claim.index not in replaced]
        return self._replaced(solution, kept, single_claims, separated)

    def _replaced(
        self,
        solution: Solution,
        kept: list[InFlightClaim],
        replaceable: Sequence[_Replaceable],
        cheaper: Sequence[list[InFlightClaim]],
    ) -> Solution:
        """Return the solution with the `cheaper` claims of each scope, if these cost less and keep limits and rules."""
        constraints, claims = solution.state.constraints, list(kept)
        for part, cheaper_claims in zip(replaceable, cheaper, strict=True):
            charged = _charged_instead(constraints, part, cheaper_claims) if cheaper_claims else None
            constraints = charged or constraints
            claims += cheaper_claims if charged else part.claims
        for index, claim in enumerate(claims):
            claim.index = index
        changed = replace(solution, claims=claims)
        domain_counts = recounted(self._context, changed)
        if keeps_counts(self._context, before=solution.state.domain_counts, after=domain_counts):
            return replace(changed, state=replace(solution.state, domain_counts=domain_counts, constraints=constraints))
        return solution

    def _taken_apart(self, solution: Solution) -> tuple[list[InFlightClaim], list[_Replaceable]]:
        """Return the claims that stay unchanged, and the others by scope, each with its movable sets of pods.

        Pods that an unplaced pod must be near stay where they are.
        """
        kept = list[InFlightClaim]()
        awaited = {
            number for pending in solution.unplaced for number in self._hostname_caps.followed(pending.pod_group)
        }
        in_demand = templates_in_demand(self._context, solution.unplaced)
        scopes: dict[tuple[int, int], tuple[RepackScope, list[InFlightClaim]]] = {}
        for claim in solution.claims:
            is_awaited = awaited and any(
                not awaited.isdisjoint(signature.selected_by) for signature in claim.signatures
            )
            if is_awaited or not _may_repack(claim, solution, pods_wait=claim.template.index in in_demand):
                kept.append(claim)
            else:
                scope = self._extraction.scope(claim)
                scopes.setdefault((scope.template.index, scope.offered), (scope, []))[1].append(claim)
        parts: list[_Replaceable] = []
        for _, (scope, claims) in sorted(scopes.items()):
            nodes = [self._extraction.items_of(claim, scope) for claim in claims]
            # The pods that must stay together come first in each list.
            is_fixed = [of_claim[0].item.is_fixed for of_claim in nodes]
            if sum(is_fixed) <= self._settings.repack.fixed_items_max:
                is_fixed = [False] * len(claims)
            kept += [claim for claim, stays in zip(claims, is_fixed, strict=True) if stays]
            moved = [pair for pair, stays in zip(zip(claims, nodes, strict=True), is_fixed, strict=True) if not stays]
            if moved:
                parts.append(_Replaceable(scope, [claim for claim, _ in moved], [of_claim for _, of_claim in moved]))
        return kept, parts

    def _subproblems(
        self, scope: RepackScope, nodes: Sequence[Sequence[MovablePods]], budget: SearchBudget
    ) -> list[Subproblem]:
        """Return one subproblem, or one for each zone if it is too large."""
        settings = self._settings.repack
        movable = [pods for of_node in nodes for pods in of_node]
        items = {pods.item for pods in movable}
        if len(items) * scope.template.mask.bit_count() > settings.joint_pairs_max:
            zones = ZoneSplit(self._context, scope, budget, self._settings).split(movable)
            if zones:
                return [
                    Subproblem(self._context, scope, [there], settings=settings, zone=zone)
                    for zone, there in zones.items()
                ]
        return [Subproblem(self._context, scope, nodes, settings=settings)]


def _may_repack(claim: InFlightClaim, solution: Solution, *, pods_wait: bool) -> bool:
    """Whether a claim may be replaced: it has no fixed pod, and all constraints allow it."""
    constraints = solution.state.constraints.all
    is_fixed = solution.fixed_pods and any(pod.key in solution.fixed_pods for pod in claim.pods)
    return not (claim.min_values_relaxed or is_fixed) and all(
        c.may_replace(claim, pods_wait=pods_wait) for c in constraints
    )


def _charged_instead(
    constraints: PlanConstraints, replaceable: _Replaceable, cheaper: Sequence[InFlightClaim]
) -> PlanConstraints | None:
    """Return a copy of the constraints charged with the claims found; None if these save nothing or exceed a limit.

    The plan's own constraints stay unchanged: the other model of hostname rules starts from them again.
    """
    charged, replaced = constraints.copy(), replaceable.claims
    limits = charged.limits.remaining[replaceable.scope.template.index]
    is_within = replaces_within_limits(cheaper, replaced, limits=limits)
    return charged if is_within and all(c.replace(replaced, cheaper) for c in charged.all) else None
