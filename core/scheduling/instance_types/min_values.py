"""minValues: a claim must leave EC2 enough different instance types to choose from."""

from __future__ import annotations

from collections.abc import Mapping

from core.scheduling.instance_types.type_filter import TypeFilter
from core.scheduling.primitives.bit_set import bits
from core.scheduling.primitives.handles import RequirementId, TypeMask


def unmet(types: TypeFilter, mask: TypeMask, wanted: Mapping[str, int]) -> dict[str, int]:
    """Return label key → how many distinct values the types have, for each key that has fewer than required."""
    found = {key: types.distinct(mask, key) for key in sorted(wanted)}
    return {key: count for key, count in found.items() if count < wanted[key]}


def cut(types: TypeFilter, mask: TypeMask, reqs: RequirementId, wanted: Mapping[str, int], most: int) -> TypeMask:
    """Return the cheapest `most` of the types in a set; more expensive ones are included where minValues needs them."""
    if mask.bit_count() <= most:
        return mask
    ordered = [position for _, position in types.offerings.in_price_order(mask, reqs)]
    chosen = first_of_each(types, ordered, wanted)
    for position in ordered:
        if len(chosen) >= most:
            break
        chosen.add(position)
    return TypeMask(bits(chosen))


def first_of_each(types: TypeFilter, ordered: list[int], wanted: Mapping[str, int]) -> set[int]:
    """Return the first types in this order with as many values as required, or with all values if there are fewer."""
    chosen: set[int] = set()
    mask = TypeMask(0)
    for key in sorted(wanted):
        for position in ordered:
            if types.distinct(mask, key) >= wanted[key]:
                break
            if types.distinct(mask | 1 << position, key) > types.distinct(mask, key):
                mask |= 1 << position
                chosen.add(position)
    return chosen
