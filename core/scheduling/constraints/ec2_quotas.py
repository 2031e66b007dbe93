"""Applies EC2's vCPU quotas to a plan that would exceed one.

Most plans are far from every quota and are only compared with them (`core.scheduling.capacity.quota_fit`). If one is exceeded,
this constraint is part of the plan: each claim has one capacity type, and is charged its largest type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from core import labels
from core.model.values import quantity
from core.model.values.requirements import Requirement, Requirements
from core.model.values.vcpu_quotas import quota_of
from core.reasons.pod import PodReason
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.capacity.quota_accounting import (
    VCPU,
    Charge,
    RemainingQuotas,
    launch_capacity_type,
    no_larger_than_cheapest,
)
from core.scheduling.capacity.quota_fit import fit
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.primitives.bit_set import positions
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.primitives.requirement_table import IMPOSSIBLE

_CHARGED: Final = (labels.SPOT, labels.ON_DEMAND)
"""Capacity types with quotas, in the order of preference at equal price; a reservation was charged when it was created."""


class Ec2Quotas(Constraint):
    """The remaining vCPU quotas of the plan."""

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._table = start.table
        self._quotas = RemainingQuotas(start.quotas)
        self._charges: dict[int, Charge] = {}
        self._has_refused = False
        self._refusing: frozenset[str] = frozenset()

    def copy(self) -> Ec2Quotas:
        """Return an independent copy of the remaining quotas."""
        other = Ec2Quotas(self._start)
        other._quotas, other._charges = self._quotas.copy(), dict(self._charges)
        other._has_refused, other._refusing = self._has_refused, self._refusing
        return other

    @property
    def changes_drafts(self) -> bool:
        """Always true: each claim reduces the quotas."""
        return True

    def narrowed(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft with one capacity type besides reserved, and types that fit its quotas; impossible if none does."""
        found = [one for one in self._choices(draft) if one.is_possible and not one.missing_values()]
        if found:
            return min(found, key=lambda one: one.price)
        self._has_refused = True
        self._refusing |= self._codes(draft)
        return draft.narrowed(IMPOSSIBLE)

    def _codes(self, draft: ClaimDraft) -> frozenset[str]:
        """Return the codes of known quotas that the draft's remaining types count in, with either capacity type."""
        fitting = draft.fitting_types
        members = draft.template.types.quota_members
        return frozenset(
            code
            for capacity_type in _CHARGED
            for code, those in members(capacity_type).items()
            if code in self._quotas.left and those & fitting
        )

    def _choices(self, draft: ClaimDraft) -> Iterator[ClaimDraft]:
        reserved = draft.narrowed(self._table.with_value(draft.reqs, labels.CAPACITY_TYPE, labels.RESERVED))
        also = (labels.RESERVED,) if reserved.is_possible else ()
        for capacity_type in _CHARGED:
            asked = Requirements([Requirement.one_of(labels.CAPACITY_TYPE, capacity_type, *also)])
            narrowed = draft.narrowed(self._table.narrowed(draft.reqs, asked=self._table.intern(asked)))
            if narrowed.is_possible:
                yield narrowed.restricted_to(self._quotas.mask(draft.template.types, draft.allowed, capacity_type))
        if also:
            yield reserved

    def open(self, claim: InFlightClaim) -> None:
        """Charge the quotas for the largest type that the claim may become."""
        charge = self._charge(claim, claim.fitting_types)
        self._charges[claim.index] = charge
        self._quotas.take(charge)

    def make_room(self, claims: Sequence[InFlightClaim], restrict: Callable[[InFlightClaim, TypeMask], None]) -> bool:
        """Restrict claims to types no larger than their cheapest if a quota kept pods out."""
        if not self._has_refused:
            return False
        self._has_refused = False
        made = [self._made_smaller(claim, restrict) for claim in claims if self._charges[claim.index]]
        return any(made)

    def _made_smaller(self, claim: InFlightClaim, restrict: Callable[[InFlightClaim, TypeMask], None]) -> bool:
        left = claim.fitting_types
        small = no_larger_than_cheapest(claim, left, launch_capacity_type(claim, left))
        if unmet(claim.template.types, small, claim.min_values):
            small = left
        before, after = self._charges[claim.index], self._charge(claim, small)
        if after == before:
            return False
        self._quotas.refund(before)
        self._quotas.take(after)
        self._charges[claim.index] = after
        restrict(claim, small)
        return any(after.get(code, 0) < amount for code, amount in before.items())

    def _charge(self, claim: InFlightClaim, among: TypeMask) -> Charge:
        capacity_type = launch_capacity_type(claim, among)
        return (
            {}
            if capacity_type == labels.RESERVED
            else self._quotas.charge_of(claim.template.types, among, capacity_type)
        )

    def shortage(self, draft: ClaimDraft) -> tuple[str, str]:
        """Name the exhausted quotas, their remainders, and the least that would be enough."""
        types = draft.template.types
        fitting = draft.fitting_types
        _, capacity_types = types.offerings.zones_and_capacity_types(fitting, draft.reqs)
        least: dict[str, tuple[int, str]] = {}
        for capacity_type in (one for one in _CHARGED if one in capacity_types):
            for found in (types.types[position] for position in positions(fitting)):
                quota, vcpus = quota_of(found.name), found.capacity.get(quantity.CPU, 0)
                code = quota.code(capacity_type)
                if code in self._quotas.left:
                    least[code] = min(least.get(code, (vcpus, "")), (vcpus, quota.described(capacity_type)))
        return PodReason.QUOTA_REACHED, "; ".join(
            self._described(code, *found) for code, found in sorted(least.items())
        )

    def _described(self, code: str, least: int, quota: str) -> str:
        left = max(0, self._quotas.left[code]) // VCPU
        return f"EC2's {quota}, leaves {left} vCPUs and the smallest suitable instance type has {least // VCPU}"

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Whether none of the claim's quotas refused a pod; for those that did, the greedy plan decides who gets the rest."""
        return self._refusing.isdisjoint(self._charge(claim, claim.fitting_types))

    def replace(self, replaced: Sequence[InFlightClaim], found: Sequence[InFlightClaim]) -> bool:
        """Restrict the claims found to types that fit beside all other claims, and charge them; return False if none fit."""
        quotas = self._quotas.copy()
        for claim in replaced:
            quotas.refund(self._charge(claim, claim.fitting_types))
        if not fit(found, quotas):
            return False
        for claim in found:
            quotas.take(self._charge(claim, claim.fitting_types))
        self._quotas = quotas
        return True
