"""Charges changed claims to the limits of their NodePool."""

from __future__ import annotations

from collections.abc import Sequence

from core.model.values import quantity
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.node_pool_limits import RemainingLimits
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.primitives.handles import NO_TYPES, TypeMask


def replaces_within_limits(
    found: Sequence[InFlightClaim], replaced: Sequence[InFlightClaim], *, limits: RemainingLimits
) -> bool:
    """Replace claims by cheaper ones and charge them; without saving or limits, change nothing and return False."""
    types = replaced[0].template.types
    before = dict(limits.left)
    for claim in replaced:
        limits.refund(types, claim.charged)
    if found and all(_charge(claim, limits) for claim in found) and _cost(found) < _cost(replaced):
        return True
    limits.left = before
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
    if not unmet(types, small, claim.min_values):
        return small
    return NO_TYPES if unmet(types, kept, claim.min_values) else kept
