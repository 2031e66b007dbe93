"""Gives each pod of a claim a node of its own where that is cheaper."""

from __future__ import annotations

from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.plan_constraints import PlanConstraints
from core.scheduling.optimization.claims.claim_builder import ClaimBuilder
from core.scheduling.optimization.items.packing_item import MovablePods, PackingItem
from core.scheduling.pods.pod_group import PodGroup
from core.scheduling.primitives.handles import TypeMask


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
