"""Applies commitments to a plan's new nodes: each hour of prepaid usage covers at most one of them.

It is part of a plan only if there are commitments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from core import labels
from core.scheduling.constraints.constraint import Constraint, PlanStart, TypeCharges
from core.scheduling.instance_types import unmet
from core.scheduling.new_node import ClaimDraft, InFlightClaim
from core.scheduling.primitives import IMPOSSIBLE, TypeMask


class CoveredDraft(NamedTuple):
    """A draft that is restricted to types that one commitment covers completely.

    Attributes:
        position: The commitment's position.
        name: The commitment's name.
    """

    draft: ClaimDraft
    position: int
    name: str


class _Covered(NamedTuple):
    """A claim that a commitment covers, its types, and the least that it can use."""

    claim: InFlightClaim
    position: int
    charges: TypeCharges
    types: TypeMask
    least: int


class Commitments(Constraint):
    """The unused amounts of commitments in one plan.

    A claim that is restricted to a commitment may only become completely covered on-demand capacity, and is charged for its
    largest type: whatever EC2 launches, coverage never exceeds the commitment. When the plan is complete, `settle` reduces
    charges to what claims need, and covers further claims with the rest.

    Attributes:
        left: [commitment], the amount that no claim uses.
    """

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._table = start.table
        self.left = list(start.uncommitted)

    def copy(self) -> Commitments:
        """Return an independent copy of the unused amounts."""
        other = type(self)(self._start)
        other.left = list(self.left)
        return other

    @property
    def changes_drafts(self) -> bool:
        """Whether any amount was unused at the start of the plan."""
        return any(self._start.uncommitted)

    def choices(self, draft: ClaimDraft) -> Iterator[CoveredDraft]:
        """Yield the draft of a new claim, restricted to each commitment that completely covers some of its types.

        Yield none if the draft can use a capacity reservation, whose places serve nothing else, or for dedicated hardware.
        """
        return self._choices(draft, self.left)

    def _choices(self, draft: ClaimDraft, uncommitted: Sequence[int]) -> Iterator[CoveredDraft]:
        table = self._table
        tenancy = table[draft.reqs].get(labels.TENANCY)
        is_shared = tenancy is None or tenancy.has(labels.SHARED_TENANCY)
        reserved = draft.narrowed(table.with_value(draft.reqs, labels.CAPACITY_TYPE, labels.RESERVED))
        if not is_shared or reserved.is_possible:
            return
        on_demand = table.with_value(draft.reqs, labels.CAPACITY_TYPE, labels.ON_DEMAND)
        for position, commitment in enumerate(self._start.charges.commitments):
            if on_demand == IMPOSSIBLE or not uncommitted[position]:
                continue
            reqs = table.with_value(on_demand, labels.ZONE, commitment.bound_to) if commitment.bound_to else on_demand
            covered = self._charges(position, draft).within(uncommitted[position])
            restricted = draft.narrowed(reqs).restricted_to(TypeMask(draft.allowed & covered))
            if restricted.is_possible and not restricted.missing_values():
                yield CoveredDraft(restricted, position, commitment.name)

    def open(self, claim: InFlightClaim) -> None:
        """Charge the claim's commitment for the claim's largest type."""
        if claim.commitment:
            position = self._position(claim.commitment)
            self.left[position] -= self._charges(position, claim.draft).largest(claim.fitting_types)

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Only claims without a commitment: covered ones cost nothing."""
        return not claim.commitment

    def settle(self, claims: Sequence[InFlightClaim], *, extends: bool) -> None:
        """Reduce the charges of covered claims to their need, cover others with the rest, and keep as many types as possible.

        Args:
            claims: All claims of the plan.
            extends: Whether uncovered claims may be covered, which makes them on-demand capacity.
        """
        uncommitted = list(self._start.uncommitted)
        covered = [self._covered(claim) for claim in claims if claim.commitment]
        for covered_claim in covered:
            uncommitted[covered_claim.position] -= covered_claim.least
        others = [claim for claim in claims if not claim.commitment and not claim.reservations]
        for claim in sorted(others, key=lambda claim: (-claim.price, claim.index)) if extends else ():
            choice = next(self._choices(claim.draft, uncommitted), None)
            if choice is not None:
                claim.reqs, claim.allowed, claim.commitment = choice.draft.reqs, choice.draft.allowed, choice.name
                covered.append(self._covered(claim))
                uncommitted[choice.position] -= covered[-1].least
        for claim, position, charges, types, least in covered:
            room = uncommitted[position] + least
            claim.allowed = TypeMask(types & charges.within(room))
            uncommitted[position] = room - charges.largest(claim.allowed)
        self.left = uncommitted

    def _covered(self, claim: InFlightClaim) -> _Covered:
        position, types, fitting = self._position(claim.commitment), claim.template.types, claim.fitting_types
        charges = self._charges(position, claim.draft)
        cheapest = next(types.offerings.positions_in_price_order(fitting, claim.reqs))
        least = charges.largest(TypeMask(1 << cheapest))
        if unmet(types, TypeMask(fitting & charges.within(least)), claim.min_values, claim.reqs):
            least = charges.largest(fitting)
        return _Covered(claim, position, charges, fitting, least)

    def _charges(self, position: int, draft: ClaimDraft) -> TypeCharges:
        return self._start.charges.of(position, draft.template.index)

    def _position(self, name: str) -> int:
        return next(i for i, commitment in enumerate(self._start.charges.commitments) if commitment.name == name)


class LateCommitments(Commitments):
    """Commitments that cover the claims of a plan made without them."""

    def choices(self, draft: ClaimDraft) -> Iterator[CoveredDraft]:
        """Yield nothing: claims open as they would without commitments."""
        return iter(())
