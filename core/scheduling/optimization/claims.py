"""Builds a claim from a machine with packing items, with the same requirement tables as the greedy planner."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from core.model.pod import Pod
from core.model.values import quantity
from core.packing.settings import RepackSettings
from core.scheduling.claim_search import Solution
from core.scheduling.constraints.registry import PlanConstraints
from core.scheduling.context import SchedulingContext
from core.scheduling.instance_types import first_of_each, unmet
from core.scheduling.new_node import ClaimProfile, ClaimProfiles, InFlightClaim, NodeClaimTemplate, RemainingLimits
from core.scheduling.optimization.items import HostnameRuleState, MovablePods, PackingItem, RepackScope
from core.scheduling.pods import PodGroup, PodSignature
from core.scheduling.primitives import (
    IMPOSSIBLE,
    NO_TYPES,
    RequirementId,
    TopologyGroupId,
    TypeMask,
    Vector,
    bits,
    memo,
)
from core.scheduling.topology.domains import DomainCounts


class ClaimBuilder:
    """Builds the claims of one scope."""

    def __init__(self, context: SchedulingContext, scope: RepackScope, settings: RepackSettings) -> None:
        self._context = context
        self._scope = scope
        self._near_cheapest: Callable[[RequirementId, TypeMask], TypeMask] = memo(
            partial(_near_cheapest, scope.template, settings)
        )

    def claim(self, members: Sequence[MovablePods]) -> InFlightClaim | None:
        """Return a claim for these pods, None if no type suits all of them."""
        table, template = self._context.table, self._scope.template
        reqs, allowed = self._scope.offered, template.mask
        for requirements in dict.fromkeys([item.reqs for item, _ in members]):
            reqs = table.narrowed(reqs, required=requirements) if reqs != IMPOSSIBLE else reqs
        for mask in dict.fromkeys([item.allowed for item, _ in members]):
            allowed &= mask
        used = self._context.axis.total([item.requests for item, _ in members])
        kept = self._types(reqs, allowed, used) if reqs != IMPOSSIBLE else NO_TYPES
        if not kept:
            return None
        pods = [pod for _, item_pods in members for pod in item_pods]
        pod_groups = list(map(self._context.pod_groups.of, pods))
        return InFlightClaim(
            0, template, reqs, kept, used, pods, pod_groups, charged=kept, min_values=template.min_values
        )

    def _types(self, reqs: RequirementId, allowed: TypeMask, used: Vector) -> TypeMask:
        """Return types that hold the pods, limited to those near the cheapest and those that minValues need."""
        types = self._scope.template.types
        return self._near_cheapest(reqs, types.room.fitting(types.mask(reqs) & allowed, used))


def _near_cheapest(
    template: NodeClaimTemplate, settings: RepackSettings, reqs: RequirementId, fitting: TypeMask
) -> TypeMask:
    """Return those of these types near the cheapest and those that minValues need; none if too few."""
    types, min_values = template.types, template.min_values
    priced = types.offerings.in_price_order(fitting, reqs)
    if not priced or unmet(types, fitting, min_values, reqs):
        return NO_TYPES
    needed = first_of_each(types, [position for _, position in priced], min_values, reqs)
    above, below = settings.claim_price_ratio_max
    price_max = priced[0][0] * above // below
    kept = (
        position
        for rank, (price, position) in enumerate(priced)
        if price <= price_max or rank < settings.claim_types_min or position in needed
    )
    return TypeMask(bits(kept))


# Charges changed claims to the limits of their NodePool.


def replaces_within_limits(
    cheaper: Sequence[InFlightClaim], replaced: Sequence[InFlightClaim], *, limits: RemainingLimits
) -> bool:
    """Replace claims by cheaper ones and charge them; without saving or limits, change nothing and return False."""
    types = replaced[0].template.types
    before = limits.saved()
    for claim in replaced:
        limits.refund(types, claim.charged)
    if cheaper and all(_charge(claim, limits) for claim in cheaper) and _cost(cheaper) < _cost(replaced):
        return True
    limits.restore(before)
    return False


def _charge(claim: InFlightClaim, limits: RemainingLimits) -> bool:
    """Narrow a claim to the types that the limits allow and charge it; return whether they allow any."""
    if limits.left:
        claim.allowed = _within(limits, claim)
    claim.charged = claim.allowed
    if claim.charged:
        limits.charge(claim.template.types, claim.charged)
    return bool(claim.charged)


def _cost(claims: Sequence[InFlightClaim]) -> int:
    return sum(claim.price for claim in claims)


def _within(limits: RemainingLimits, claim: InFlightClaim) -> TypeMask:
    """Return the claim's types that the limits allow; none if too few remain for minValues.

    A claim is charged its largest type, so it keeps none larger than its cheapest unless minValues need them.
    """
    types = claim.template.types
    kept = limits.mask(types, claim.allowed)
    priced = types.offerings.in_price_order(kept, claim.reqs)
    small = kept
    for name in limits.left if priced else ():
        if name != quantity.NODES:
            small &= types.room.capacities(name).at_most(types.types[priced[0][1]].capacity.get(name, 0))
    if not unmet(types, small, claim.min_values, claim.reqs):
        return small
    return NO_TYPES if unmet(types, kept, claim.min_values, claim.reqs) else kept


# Builds claims for pods that a target put together on new nodes, if the pods still exist and the rules allow it.


_Waiting = dict[str, deque[tuple[int, MovablePods]]]


def regrouped(
    builder: ClaimBuilder,
    nodes: Sequence[Sequence[MovablePods]],
    planned: Sequence[Mapping[str, int]],
    kind: Callable[[Pod], str],
) -> list[InFlightClaim]:
    """Return new claims; pods without an intended node stay with those of their present claim. None if a claim cannot be built.

    Args:
        builder: The builder of the claims' scope.
        nodes: The pods of each present claim.
        planned: For each new node, kind → number of pods.
        kind: Returns the kind of a pod.
    """
    waiting: _Waiting = {}
    rest: dict[int, list[MovablePods]] = {}
    for number, members in enumerate(nodes):
        for movable in members:
            if len(movable.pods) > 1 or movable.item.is_fixed:
                rest.setdefault(number, []).append(movable)
            else:
                waiting.setdefault(kind(movable.pods[0]), deque()).append((number, movable))
    claims: list[InFlightClaim] = []
    for of_node in planned:
        drawn = _drawn(waiting, of_node)
        claim = builder.claim([movable for _, movable in drawn]) if drawn else None
        if claim is not None:
            claims.append(claim)
            continue
        for number, movable in drawn:
            rest.setdefault(number, []).append(movable)
    for batches in waiting.values():
        for number, movable in batches:
            rest.setdefault(number, []).append(movable)
    built = [builder.claim(rest[number]) for number in sorted(rest)]
    others = [claim for claim in built if claim is not None]
    return [*claims, *others] if len(others) == len(built) else []


def _drawn(waiting: _Waiting, wanted: Mapping[str, int]) -> list[tuple[int, MovablePods]]:
    """Take pods of a new node's kinds, as many as exist and hostname rules admit together."""
    rules, drawn = HostnameRuleState(), list[tuple[int, MovablePods]]()
    for name, count in sorted(wanted.items()):
        queue = waiting.get(name, deque())
        for _ in range(min(count, len(queue))):
            if not rules.admits(queue[0][1].item):
                break
            drawn.append(queue.popleft())
            rules.add(drawn[-1][1].item)
    return drawn


# Gives each pod of a claim a node of its own where that is cheaper.


def separate_claims(builder: ClaimBuilder, constraints: PlanConstraints, claim: InFlightClaim) -> list[InFlightClaim]:
    """Return one claim with the same requirements for each pod of a claim; none if no type suits one of them.

    The requirements contain a value of every topology key of the pods' rules, so no count along shared domains changes.
    """
    pairs = zip(claim.pods, claim.pod_groups, strict=True)
    items = ((_item(claim, constraints, pod_group), pod) for pod, pod_group in pairs)
    built = [builder.claim([MovablePods(item, [pod])]) for item, pod in items]
    claims = [built_claim for built_claim in built if built_claim is not None]
    return claims if len(claims) == len(built) else []


def _item(claim: InFlightClaim, constraints: PlanConstraints, pod_group: PodGroup) -> PackingItem:
    """Return a pod of a claim as an item that keeps the requirements of the claim."""
    empty = InFlightClaim(-1, claim.template, claim.reqs, claim.template.mask, ())
    allowed: TypeMask = claim.template.size_for(pod_group.requests)
    for constraint in constraints.concerning(pod_group):
        allowed &= constraint.types(empty, pod_group)
    return PackingItem(pod_group.requests, claim.reqs, allowed)


# Recounts the pods of a changed plan, to check that every rule along shared domains has the counts of the greedy plan.


def recounted(context: SchedulingContext, solution: Solution) -> DomainCounts:
    """Return the counts of every topology group, without the pods that the plan takes from nodes that it removes.

    Counts do not depend on a claim's types, so claims with equal requirements share a profile.
    """
    domain_counts = solution.state.domain_counts.at_start()
    for pod, position in solution.bound:
        domain_counts.record_on_node(context.pod_groups.of(pod).signature, position)
    profiles = ClaimProfiles()
    placed: dict[tuple[PodSignature, ClaimProfile], list[int]] = {}
    for number, claim in enumerate(solution.claims):
        profile = profiles.of(claim.template, claim.reqs, claim.template.mask)
        for pod_group in claim.pod_groups:
            placed.setdefault((pod_group.signature, profile), []).append(number)
    for (signature, profile), claims in placed.items():
        domain_counts.record_on_claims(signature, profile, claims)
    return domain_counts


def keeps_counts(context: SchedulingContext, *, before: DomainCounts, after: DomainCounts) -> bool:
    """Whether every required group along shared domains has as many pods in each domain as before."""
    topology = context.topology
    numbers = (TopologyGroupId(n) for n, group in enumerate(topology.groups) if not group.is_hostname)
    required = (number for number in numbers if topology.is_hard(number))
    return all(_occupied(before, number) == _occupied(after, number) for number in required)


def _occupied(domain_counts: DomainCounts, number: TopologyGroupId) -> dict[str, int]:
    return {domain: count for domain, count in domain_counts.of(number).items() if count}
