"""Turns a machine with parties on it into a claim, by the same requirement tables as the greedy planner's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.instance_types.min_values import first_of_each, unmet
from core.scheduling.optimization.items.item_extraction import Bundle, Market
from core.scheduling.primitives.bit_set import bits
from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.requirement_table import IMPOSSIBLE
from core.scheduling.primitives.resource_vector import Vector, plus

PRICE_BAND: Final = (3, 2)
"""A repacked node keeps the types that cost up to one and a half times its cheapest: a fleet may pick any of them."""

TYPES_MIN: Final = 30
"""It keeps so many in any case, dearer ones too: with few types to choose from, a launch fails."""


class ClaimBuilder:
    """Builds the claims of one market."""

    def __init__(self, context: SchedulingContext, market: Market) -> None:
        self._context = context
        self._market = market
        self._kept: dict[tuple[int, int, Vector], TypeMask] = {}

    def claim(self, bundles: Sequence[Bundle]) -> InFlightClaim | None:
        """A claim for these pods, None where no type will do for all of them."""
        table, template = self._context.table, self._market.template
        reqs, allowed, used = self._market.offered, template.mask, self._context.axis.zero
        for party, _ in bundles:
            reqs = table.narrowed(reqs, asked=party.reqs) if reqs != IMPOSSIBLE else reqs
            allowed &= party.allowed
            used = plus(used, party.requests)
        kept = self._types(reqs, allowed, used) if reqs != IMPOSSIBLE else TypeMask(0)
        if not kept:
            return None
        claim = InFlightClaim(0, template, reqs, kept, used, charged=kept, min_values=template.min_values)
        for pod in (pod for _, members in bundles for pod in members):
            claim.add_pod(pod, self._context.pod_groups.of(pod))
        return claim

    def _types(self, reqs: RequirementId, allowed: TypeMask, used: Vector) -> TypeMask:
        """Types that hold the pods, cut to those near the cheapest and what minValues need; none where there are too few."""
        question = (reqs, allowed, used)
        known = self._kept.get(question)
        if known is None:
            types, wanted = self._market.template.types, self._market.template.min_values
            left = types.room.survivors(types.mask(reqs) & allowed, used)
            priced = types.offerings.in_price_order(left, reqs)
            if unmet(types, left, wanted):
                priced = []
            needed = first_of_each(types, [position for _, position in priced], wanted)
            limit = priced[0][0] * PRICE_BAND[0] // PRICE_BAND[1] if priced else 0
            known = self._kept[question] = TypeMask(
                bits(
                    position
                    for rank, (price, position) in enumerate(priced)
                    if price <= limit or rank < TYPES_MIN or position in needed
                )
            )
        return known
