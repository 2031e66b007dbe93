"""Books changed claims against the limits of their NodePool."""

from __future__ import annotations

from collections.abc import Sequence

from core.model.values import quantity
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.node_pool_limits import RemainingLimits
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.primitives.handles import NO_TYPES, TypeMask


def booked(found: Sequence[InFlightClaim], instead_of: Sequence[InFlightClaim], room: RemainingLimits) -> bool:
    """Book cheaper claims in place of others in what the limits leave, or change nothing and say so."""
    types = instead_of[0].template.types
    before = dict(room.left)
    for claim in instead_of:
        room.refund(types, claim.charged)
    if found and all(_book(claim, room) for claim in found) and _cost(found) < _cost(instead_of):
        return True
    room.left = before
    return False


def _book(claim: InFlightClaim, room: RemainingLimits) -> bool:
    """Hold a claim to the types that the limits allow and charge it, or say that they allow none."""
    if room.left:
        claim.allowed = _within(room, claim)
    claim.charged = claim.allowed
    if claim.charged:
        room.charge(claim.template.types, claim.charged)
    return bool(claim.charged)


def _cost(claims: Sequence[InFlightClaim]) -> int:
    return sum(claim.price for claim in claims)


def _within(room: RemainingLimits, claim: InFlightClaim) -> TypeMask:
    """A claim's types that the limits allow once more; none without the choice that minValues demand.

    None larger than its cheapest, for it is charged the largest, unless minValues need those, too.
    """
    types = claim.template.types
    kept = room.mask(types, claim.allowed)
    priced = types.offerings.in_price_order(kept, claim.reqs)
    small = kept
    for name in room.left if priced else ():
        if name != quantity.NODES:
            small &= types.room.capacities(name).at_most(types.types[priced[0][1]].capacity.get(name, 0))
    if not unmet(types, small, claim.min_values):
        return small
    return NO_TYPES if unmet(types, kept, claim.min_values) else kept
