"""Makes room under a NodePool's limits by restricting claims to smaller types.

A claim is charged its largest type until it is launched. A place for every pod is worth more than a choice between types.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from core.model.values import quantity
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.node_pool_limits import RemainingLimits, largest_amount
from core.scheduling.greedy.open_claim_search import OpenClaimSearch
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.primitives.handles import TypeMask


def narrow_to_cheapest(state: PlanState, search: OpenClaimSearch, limited: Collection[int]) -> bool:
    """Restrict the claims of some NodePools to types no larger than their cheapest, and return whether that freed anything.

    Args:
        state: The plan.
        search: Its claims.
        limited: Templates whose limits have kept pods out.
    """
    made_room = False
    for claim in search.claims:
        if claim.template.index in limited:
            made_room |= _restrict_to_cheapest(claim, state.limits[claim.template.index], search)
    return made_room


def _restrict_to_cheapest(claim: InFlightClaim, limits: RemainingLimits, search: OpenClaimSearch) -> bool:
    types = claim.template.types
    small = _no_larger_than_cheapest(claim, limits.left)
    if small == claim.charged:
        return False
    freed = any(largest_amount(types, claim.charged, name) > largest_amount(types, small, name) for name in limits.left)
    limits.refund(types, claim.charged)
    limits.charge(types, small)
    claim.charged = small
    search.restrict(claim, small)
    return freed


def _no_larger_than_cheapest(claim: InFlightClaim, limited: Iterable[str]) -> TypeMask:
    """Return the claim's types that exceed its cheapest one in no limited resource; all types if minValues need more."""
    types = claim.template.types
    left = claim.fitting_types
    small = left
    for name in limited:
        if name != quantity.NODES:
            cheapest = types.types[types.offerings.in_price_order(left, claim.reqs)[0][1]]
            small &= types.room.capacities(name).at_most(cheapest.capacity.get(name, 0))
    return left if unmet(types, small, claim.min_values) else small
