"""Fits the claims of a plan into EC2's vCPU quotas without planning again: it drops alternatives that could exceed one.

A plan rarely comes near a quota. If the largest types of its claims would exceed one, the claims keep only types nearer in size
to their cheapest one; if even these exceed it, another plan is needed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from core import labels
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.quota_accounting import (
    RemainingQuotas,
    launch_capacity_type,
    no_larger_than_cheapest,
)
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.primitives.handles import TypeMask

TIMES: Final = (8, 4, 2, 1)
"""Bounds on the vCPUs of a claim's types, as multiples of its cheapest type's: the loosest that fits is used."""


class _Open(NamedTuple):
    """A claim, its remaining types, and the capacity type that it would be requested with."""

    claim: InFlightClaim
    types: TypeMask
    capacity_type: str


def fit(claims: Sequence[InFlightClaim], quotas: RemainingQuotas) -> bool:
    """Restrict claims so that all of them fit together, and return whether they do; if not, none is changed."""
    charged = [one for one in map(_open, claims) if one.capacity_type != labels.RESERVED]
    exceeded = _exceeded(((one, one.types) for one in charged), quotas)
    if not exceeded:
        return True
    for times in TIMES:
        kept = [_kept(one, exceeded, times) for one in charged]
        if not _exceeded(zip(charged, kept, strict=True), quotas):
            for one, types in zip(charged, kept, strict=True):
                if types != one.types:
                    one.claim.allowed &= types
            return True
    return False


def _open(claim: InFlightClaim) -> _Open:
    left = claim.fitting_types
    return _Open(claim, left, launch_capacity_type(claim, left))


def _exceeded(claims: Iterable[tuple[_Open, TypeMask]], quotas: RemainingQuotas) -> frozenset[str]:
    """Return the codes of quotas that the claims may exceed, each at the largest of these types."""
    after = quotas.copy()
    charged = set[str]()
    for one, types in claims:
        charge = quotas.charge_of(one.claim.template.types, types, one.capacity_type)
        charged.update(charge)
        after.take(charge)
    return frozenset(code for code in charged if after.left[code] < 0)


def _kept(one: _Open, exceeded: frozenset[str], times: int) -> TypeMask:
    """Return the claim's types without those that take too much of an exceeded quota; all of them if minValues need more."""
    members = one.claim.template.types.quota_members(one.capacity_type)
    limited = TypeMask(0)
    for code in sorted(exceeded & members.keys()):
        limited |= members[code]
    small = no_larger_than_cheapest(one.claim, one.types, one.capacity_type, times=times)
    kept = one.types & ~(limited & ~small)
    return one.types if unmet(one.claim.template.types, kept, one.claim.min_values) else kept
