"""Determines what a NodePool can launch at all, and which of its own requirements excludes everything."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from core.pools.pool_template import template_parts
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.requirement_table import IMPOSSIBLE


class PoolOffers(msgspec.Struct, frozen=True, kw_only=True):
    """The instance types that a NodePool can launch, regardless of pods.

    Attributes:
        types: Names of those with an available offering, cheapest first.
        price: The lowest price among them in nano-dollars per hour; 0 if there is none.
        conflict: Position of the first requirement that, with those before it, excludes all types; None if types remain.
        before: How many types the requirements before it allow.
        missing: Label key → number of available values, for each `minValues` that cannot be met.
    """

    types: tuple[str, ...]
    price: int = 0
    conflict: int | None = None
    before: int = 0
    missing: Mapping[str, int] = {}


def pool_offers(template: NodeClaimTemplate) -> PoolOffers:
    """Return what the NodePool of a template can launch."""
    types = template.types
    in_order: dict[str, int] = {}
    for price, position in types.offerings.in_price_order(template.mask, template.offered):
        in_order.setdefault(types.types[position].name, price)
    conflict, before = _conflict(template) if not template.mask else (None, 0)
    return PoolOffers(
        types=tuple(in_order),
        price=next(iter(in_order.values()), 0),
        conflict=conflict,
        before=before,
        missing=unmet(types, template.mask, template.min_values) if template.mask else {},
    )


def _conflict(template: NodeClaimTemplate) -> tuple[int | None, int]:
    """Return the position of the first requirement that leaves no type, and how many types remained before it."""
    types, parts = template.types, template_parts(template.pool)
    left = _mask(template, types.table.conjunction(()))
    for position in range(len(template.pool.requirements)):
        mask = _mask(template, types.table.conjunction(parts[: position + 1]))
        if not mask:
            return position, left.bit_count()
        left = mask
    return None, left.bit_count()


def _mask(template: NodeClaimTemplate, number: RequirementId) -> TypeMask:
    return TypeMask(0) if number == IMPOSSIBLE else template.types.mask(number)
