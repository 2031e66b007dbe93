"""Selects the instance types that requirements admit, for callers with few requirements and no planner."""

from __future__ import annotations

from collections.abc import Iterable

from core.model.catalogue import InstanceType
from core.model.values.requirements import Requirements


def admitted_types(
    types: Iterable[InstanceType], asked: Requirements, keys: frozenset[str]
) -> tuple[InstanceType, ...]:
    """Return the types that may carry the labels as required, and have an available offering in zone and capacity type.

    Args:
        types: The types to choose from.
        asked: The requirements; those on labels that no type has are ignored.
        keys: The labels of instance types (`Catalogue.label_keys`): a type without one of them does not meet a requirement on
            it.
    """
    demanded = [key for key, one in asked.items() if key in keys and not one.tolerates_absence]
    return tuple(
        one
        for one in types
        if all(key in one.labels for key in demanded) and one.requirements(asked).conflict(asked) is None
    )
