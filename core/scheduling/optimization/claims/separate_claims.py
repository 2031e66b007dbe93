"""Gives each pod of a claim a node of its own where that is cheaper."""

from __future__ import annotations

from collections import Counter

from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.plan_constraints import PlanConstraints
from core.scheduling.optimization.claims.claim_builder import ClaimBuilder
from core.scheduling.optimization.items.packing_item import MovablePods, PackingItem
from core.scheduling.pods.pod_group import PodGroup
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.topology.topology_group import AFFINITY


def is_undercut(claim: InFlightClaim) -> bool:
    """Whether a node for each pod, with the requirements of the claim, would cost less, and nothing keeps the pods together."""
    types, price, apart = claim.template.types, claim.price, 0
    mask, pod_groups = types.mask(claim.reqs) & claim.template.mask, Counter(claim.pod_groups)
    # A few pods are usually enough: one alone costs much more than its share of a node.
    for pod_group, count in pod_groups.items():
        alone = types.offerings.cheapest(types.room.fitting(mask, pod_group.requests), claim.reqs)
        apart += price if alone is None else alone * count
        if apart >= price:
            return False
    return not _stays_together(pod_groups)


def separate_claims(builder: ClaimBuilder, constraints: PlanConstraints, claim: InFlightClaim) -> list[InFlightClaim]:
    """Return one claim with the same requirements for each pod of a claim; none if no type suits one of them.

    The requirements contain a value of every topology key of the pods' rules, so no count along shared domains changes.
    """
    pairs = zip(claim.pods, claim.pod_groups, strict=True)
    items = ((_item(claim, constraints, pod_group), pod) for pod, pod_group in pairs)
    built = [builder.claim([MovablePods(item, [pod])]) for item, pod in items]
    claims = [one for one in built if one is not None]
    return claims if len(claims) == len(built) else []


def _item(claim: InFlightClaim, constraints: PlanConstraints, pod_group: PodGroup) -> PackingItem:
    """Return a pod of a claim as an item that keeps the requirements of the claim."""
    empty = InFlightClaim(-1, claim.template, claim.reqs, claim.template.mask, ())
    allowed: TypeMask = claim.template.size_for(pod_group.requests)
    for constraint in constraints.concerning(pod_group):
        allowed &= constraint.types(empty, pod_group)
    return PackingItem(pod_group.requests, claim.reqs, allowed)


def _stays_together(pod_groups: Counter[PodGroup]) -> bool:
    """Whether a pod follows another along hostnames, even as a preference, or two of them use one volume."""
    attached = [one for group, count in pod_groups.items() for one in group.volumes.attachments * count]
    steps = (step for group in pod_groups for step in group.steps)
    follows = any(rule.kind == AFFINITY for step in steps for rule in step.host_rules)
    return follows or len(set(attached)) < len(attached)
