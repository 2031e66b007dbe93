"""Replaces a plan's new nodes by cheaper ones that keep every rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from core.model.pod import Pod
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.plan_constraints import PlanConstraints
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.solution import Solution
from core.scheduling.optimization.claims.claim_builder import ClaimBuilder
from core.scheduling.optimization.claims.limit_accounting import replaces_within_limits
from core.scheduling.optimization.claims.regrouping import regrouped
from core.scheduling.optimization.claims.separate_claims import separate_claims
from core.scheduling.optimization.claims.topology_recount import keeps_counts, recounted
from core.scheduling.optimization.items.hostname_caps import HostnameCaps
from core.scheduling.optimization.items.item_extraction import ItemExtraction, RepackScope
from core.scheduling.optimization.items.packing_item import MovablePods
from core.scheduling.optimization.relaxed_pods import is_undercut
from core.scheduling.optimization.search_schedule import search
from core.scheduling.optimization.subproblems.subproblem import Subproblem
from core.scheduling.optimization.subproblems.zone_split import ZoneSplit
from core.scheduling.optimization.template_demand import templates_in_demand


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
        found = iter([one.claims() for one in searches])
        cheaper: list[list[InFlightClaim]] = []
        for of_scope in task.subproblems:
            parts = [next(found) for _ in of_scope]
            cheaper.append([claim for part in parts for claim in part] if all(parts) else [])
        return self._separated(self._replaced(solution, task.kept, task.replaceable, cheaper))

    def _task(self, solution: Solution, budget: SearchBudget) -> _Task:
        kept, replaceable = self._taken_apart(solution)
        subproblems = [self._subproblems(one.scope, one.nodes, budget) for one in replaceable]
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
        found = [
            regrouped(ClaimBuilder(self._context, one.scope, self._settings.repack), one.nodes, new_nodes, kind)
            for one in replaceable
        ]
        return self._replaced(solution, kept, replaceable, found)

    def _separated(self, solution: Solution) -> Solution:
        """Return the solution with claims split into one node per pod where that is cheaper, if rules and limits allow it."""
        costly = [claim for claim in solution.claims if is_undercut(claim)]
        if not costly:
            return solution
        _, taken = self._taken_apart(replace(solution, claims=costly))
        each = [_Replaceable(one.scope, [claim], []) for one in taken for claim in one.claims]
        constraints, repack = solution.state.constraints, self._settings.repack
        found = [
            separate_claims(ClaimBuilder(self._context, one.scope, repack), constraints, one.claims[0]) for one in each
        ]
        replaced = {one.claims[0].index for one in each}
        kept = [claim for claim in solution.claims if claim.index not in replaced]
        return self._replaced(solution, kept, each, found)

    def _replaced(
        self,
        solution: Solution,
        kept: list[InFlightClaim],
        replaceable: Sequence[_Replaceable],
        cheaper: Sequence[list[InFlightClaim]],
    ) -> Solution:
        """Return the solution with the `cheaper` claims of each scope, if these cost less and keep limits and rules."""
        constraints, claims = solution.state.constraints, list(kept)
        for one, found in zip(replaceable, cheaper, strict=True):
            charged = _charged_instead(constraints, one, found) if found else None
            constraints = charged or constraints
            claims += found if charged else one.claims
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
            is_awaited = awaited and any(not awaited.isdisjoint(one.selected_by) for one in claim.signatures)
            if is_awaited or not _may_repack(claim, solution, pods_wait=claim.template.index in in_demand):
                kept.append(claim)
            else:
                scope = self._extraction.scope(claim)
                scopes.setdefault((scope.template.index, scope.offered), (scope, []))[1].append(claim)
        found: list[_Replaceable] = []
        for _, (scope, claims) in sorted(scopes.items()):
            nodes = [self._extraction.items_of(claim, scope) for claim in claims]
            # The pods that must stay together come first in each list.
            is_fixed = [of_claim[0].item.is_fixed for of_claim in nodes]
            if sum(is_fixed) <= self._settings.repack.fixed_items_max:
                is_fixed = [False] * len(claims)
            kept += [claim for claim, stays in zip(claims, is_fixed, strict=True) if stays]
            moved = [pair for pair, stays in zip(zip(claims, nodes, strict=True), is_fixed, strict=True) if not stays]
            if moved:
                found.append(_Replaceable(scope, [claim for claim, _ in moved], [of_claim for _, of_claim in moved]))
        return kept, found

    def _subproblems(
        self, scope: RepackScope, nodes: Sequence[Sequence[MovablePods]], budget: SearchBudget
    ) -> list[Subproblem]:
        """Return one subproblem, or one for each zone if it is too large."""
        settings = self._settings.repack
        movable = [one for of_node in nodes for one in of_node]
        items = {one.item for one in movable}
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
    constraints: PlanConstraints, replaceable: _Replaceable, found: Sequence[InFlightClaim]
) -> PlanConstraints | None:
    """Return a copy of the constraints charged with the claims found; None if these save nothing or exceed a limit.

    The plan's own constraints stay unchanged: the other model of hostname rules starts from them again.
    """
    charged, replaced = constraints.copy(), replaceable.claims
    limits = charged.limits.remaining[replaceable.scope.template.index]
    is_within = replaces_within_limits(found, replaced, limits=limits)
    return charged if is_within and all(c.replace(replaced, found) for c in charged.all) else None
