"""Masks of the instance types that have certain labels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from core import labels
from core.model.values.requirements import Requirement
from core.scheduling.instance_types.type_index import TypeIndex
from core.scheduling.primitives.bit_set import bits, positions
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.primitives.memo import memo


class LabelMasks:
    """The labels of one NodePool's types, regardless of offerings.

    Attributes:
        mask: Requirement → types that may have its label as required; all types if no type has the label.
    """

    def __init__(self, index: TypeIndex, catalogue_keys: frozenset[str]) -> None:
        self._index = index
        self._catalogue_keys = catalogue_keys
        self.mask: Callable[[Requirement], TypeMask] = memo(partial(_mask, index, catalogue_keys))

    def values(self, among: TypeMask, key: str, required: Requirement | None) -> tuple[str, ...]:
        """Return the values of a label that a node of these types may get and the requirement admits; sorted."""
        if key == labels.INSTANCE_TYPE:
            names = (self._index.types[position].name for position in positions(among))
            return tuple(name for name in names if required is None or required.has(name))
        if key in self._catalogue_keys:
            carried = (value for value, types in self._index.by_value.get(key, {}).items() if types & among)
            return tuple(sorted(value for value in carried if required is None or required.has(value)))
        return required.values if required is not None and required.is_finite else ()

    def distinct(self, among: TypeMask, key: str) -> int:
        """Return how many different values of a label these types have together."""
        if key == labels.INSTANCE_TYPE:
            return among.bit_count()
        return sum(1 for types in self._index.by_value.get(key, {}).values() if types & among)


def _mask(index: TypeIndex, catalogue_keys: frozenset[str], requirement: Requirement) -> TypeMask:
    if requirement.key == labels.INSTANCE_TYPE:
        return TypeMask(bits(i for i, one in enumerate(index.types) if requirement.has(one.name)))
    if requirement.key not in catalogue_keys:
        return index.full
    mask = carriers = TypeMask(0)
    for value, types in index.by_value.get(requirement.key, {}).items():
        carriers |= types
        mask |= types if requirement.has(value) else 0
    return mask | (index.full & ~carriers) if requirement.tolerates_absence else mask
