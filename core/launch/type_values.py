"""Applies minValues at launch: selects instance types with the distinct label values that a NodePool requires."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core import labels
from core.model.catalogue import InstanceType


def first_of_each(ordered: Sequence[InstanceType], wanted: Mapping[str, int]) -> tuple[InstanceType, ...]:
    """Return the first types in this order that together have as many distinct values as required, key by key.

    If all types together have fewer values than required, one type for each value is enough: a capacity type with few types
    does not prevent a launch (Karpenter counts before it chooses the capacity type).
    """
    chosen: dict[str, InstanceType] = {}
    for key, count in sorted(wanted.items()):
        seen = set(_values(chosen.values(), key))
        for found in ordered:
            if len(seen) >= count:
                break
            own = _values((found,), key)
            if not own <= seen:
                chosen[found.name] = found
                seen |= own
    return tuple(chosen.values())


def _values(types: Iterable[InstanceType], key: str) -> set[str]:
    """Return the values that these types have for a label."""
    if key == labels.INSTANCE_TYPE:
        return {found.name for found in types}
    if key == labels.ZONE:
        return {offering.zone for found in types for offering in found.offerings}
    if key == labels.CAPACITY_TYPE:
        return {offering.capacity_type for found in types for offering in found.offerings}
    return {value for found in types for value in found.labels.get(key, ())}
