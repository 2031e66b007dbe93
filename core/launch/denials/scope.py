"""Scopes: the offerings that a denial concerns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from core.model.catalogue import OfferingKey
from core.model.values.vcpu_quotas import quota_of, sharing

TYPES_MAX: Final = 120
"""The most instance types that a scope names: two whole requests. A denial of more is not about the types."""

Values = tuple[str, ...] | None


class DenialScope(msgspec.Struct, frozen=True, omit_defaults=True):
    """The offerings whose capacity type, zone, type and vCPU quota are named; None admits every value."""

    capacity_types: Values = None
    zones: Values = None
    instance_types: Values = None
    quotas: Values = None

    @classmethod
    def of(cls, offerings: Iterable[OfferingKey]) -> DenialScope:
        """The smallest scope with these offerings."""
        keys = tuple(offerings)
        types = _sorted(key.instance_type for key in keys)
        return cls(
            capacity_types=_sorted(key.capacity_type for key in keys),
            zones=_sorted(key.zone for key in keys),
            instance_types=types if len(types) <= TYPES_MAX else None,
        )

    @classmethod
    def of_capacity_types(cls, offerings: Iterable[OfferingKey]) -> DenialScope:
        """Everything of the capacity types of these offerings."""
        return cls(capacity_types=_sorted(key.capacity_type for key in offerings))

    @classmethod
    def of_quotas(cls, offerings: Iterable[OfferingKey]) -> DenialScope:
        """Everything that shares a vCPU quota with these offerings."""
        keys = tuple(offerings)
        capacity_types = _sorted(key.capacity_type for key in keys)
        quotas = sharing((quota_of(key.instance_type) for key in keys), capacity_types)
        return cls(capacity_types=capacity_types, quotas=_sorted(quota.name for quota in quotas))

    def covers(self, key: OfferingKey) -> bool:
        """Whether the scope contains an offering."""
        return (
            _admits(self.capacity_types, key.capacity_type)
            and _admits(self.zones, key.zone)
            and _admits(self.instance_types, key.instance_type)
            and (self.quotas is None or quota_of(key.instance_type).name in self.quotas)
        )

    def widened(self, other: DenialScope) -> DenialScope:
        """The smallest scope with both."""
        types = _union(self.instance_types, other.instance_types)
        return DenialScope(
            capacity_types=_union(self.capacity_types, other.capacity_types),
            zones=_union(self.zones, other.zones),
            instance_types=types if types is None or len(types) <= TYPES_MAX else None,
            quotas=_union(self.quotas, other.quotas),
        )


EVERYTHING: Final = DenialScope()


def _admits(values: Values, value: str) -> bool:
    return values is None or value in values


def _union(one: Values, other: Values) -> Values:
    return None if one is None or other is None else _sorted((*one, *other))


def _sorted(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(set(values)))
