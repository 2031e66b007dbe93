"""Builds a claim from a machine with packing items, with the same requirement tables as the greedy planner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from core.packing.search_settings import RepackSettings
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.context import SchedulingContext
from core.scheduling.instance_types.min_values import first_of_each, unmet
from core.scheduling.optimization.items.item_extraction import RepackScope
from core.scheduling.optimization.items.packing_item import MovablePods
from core.scheduling.primitives.bit_set import bits
from core.scheduling.primitives.handles import NO_TYPES, RequirementId, TypeMask
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.primitives.resource_vector import Vector


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
        for asked in dict.fromkeys([item.reqs for item, _ in members]):
            reqs = table.narrowed(reqs, asked=asked) if reqs != IMPOSSIBLE else reqs
        for mask in dict.fromkeys([item.allowed for item, _ in members]):
            allowed &= mask
        used = self._context.axis.total([item.requests for item, _ in members])
        kept = self._types(reqs, allowed, used) if reqs != IMPOSSIBLE else NO_TYPES
        if not kept:
            return None
        pods = [pod for _, own in members for pod in own]
        pod_groups = list(map(self._context.pod_groups.of, pods))
        return InFlightClaim(
            0, template, reqs, kept, used, pods, pod_groups, charged=kept, min_values=template.min_values
        )

    def _types(self, reqs: RequirementId, allowed: TypeMask, used: Vector) -> TypeMask:
        """Return types that hold the pods, limited to those near the cheapest and those that minValues need."""
        types = self._scope.template.types
        return self._near_cheapest(reqs, types.room.fitting(types.mask(reqs) & allowed, used))


def _near_cheapest(
    template: NodeClaimTemplate, settings: RepackSettings, reqs: RequirementId, left: TypeMask
) -> TypeMask:
    """Return those of these types near the cheapest and those that minValues need; none if too few."""
    types, min_values = template.types, template.min_values
    priced = types.offerings.in_price_order(left, reqs)
    if not priced or unmet(types, left, min_values):
        return NO_TYPES
    needed = first_of_each(types, [position for _, position in priced], min_values)
    above, below = settings.claim_price_ratio_max
    price_max = priced[0][0] * above // below
    kept = (
        position
        for rank, (price, position) in enumerate(priced)
        if price <= price_max or rank < settings.claim_types_min or position in needed
    )
    return TypeMask(bits(kept))
