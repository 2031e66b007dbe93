"""Assigns places in capacity reservations: each goes to at most one claim of a plan."""

from __future__ import annotations

from core import labels
from core.model.values.requirements import Requirement, Requirements
from core.reasons.pod import PodReason
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.primitives.handles import RequirementId
from core.scheduling.primitives.requirement_table import IMPOSSIBLE


class Reservations(Constraint):
    """The remaining places of every capacity reservation in one plan.

    A claim that can use a reservation takes one place in the cheapest and is restricted to it, or a place in each of several if
    minValues need the types of all of them. Other claims are kept out of reserved capacity, so no plan uses more places than
    exist.
    """

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._table = start.table
        self.left: dict[str, int] = {}
        for template in start.templates:
            for identity, capacity in template.types.offerings.reservations.items():
                self.left[identity] = min(capacity, self.left.get(identity, capacity))
        unreserved = Requirements([Requirement(labels.CAPACITY_TYPE, True, (labels.RESERVED,))])
        self._unreserved = start.table.intern(unreserved)

    def copy(self) -> Reservations:
        """Return an independent copy of the remaining places."""
        other = Reservations(self._start)
        other.left = dict(self.left)
        return other

    @property
    def changes_drafts(self) -> bool:
        """Whether there are any reservations."""
        return bool(self.left)

    def narrowed(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft without full reservations."""
        spent = tuple(sorted(identity for identity, left in self.left.items() if left <= 0))
        if not spent:
            return draft
        others = Requirements([Requirement(labels.RESERVATION_ID, True, spent)])
        kept_out = self._unreserved if len(spent) == len(self.left) else self._table.intern(others)
        return draft.narrowed(self._table.narrowed(draft.reqs, asked=kept_out))

    def without_any(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft without any reserved capacity."""
        return draft.narrowed(self._table.narrowed(draft.reqs, asked=self._unreserved))

    def choose(self, draft: ClaimDraft) -> tuple[RequirementId, tuple[str, ...]] | None:
        """Return requirements and reservations for a new claim; no reservations if it can do without.

        Return None if it needs one and there is none.

        A claim with minValues does without if all reservations together have too few types.
        """
        identities = sorted(identity for identity, left in self.left.items() if left > 0)
        restricted = [(self._restricted_to(draft, identity), identity) for identity in identities]
        choices = sorted(
            ((reserved, identity) for reserved, identity in restricted if reserved.is_possible),
            key=lambda choice: (choice[0].price, choice[1]),
        )
        for reserved, identity in choices:
            if not reserved.missing_values():
                return reserved.reqs, (identity,)
        several = self._several(draft, [identity for _, identity in choices])
        if several:
            return self._restricted_to(draft, *several).reqs, several
        free = self.without_any(draft) if self.left else draft
        if free.is_possible and (not choices or not free.missing_values()):
            return free.reqs, ()
        return (choices[0][0].reqs, (choices[0][1],)) if choices else None

    def _several(self, draft: ClaimDraft, ranked: list[str]) -> tuple[str, ...]:
        """Return a minimal selection, in order, with enough types for minValues; empty if all together have too few."""
        if len(ranked) < 2 or self._restricted_to(draft, *ranked).missing_values():
            return ()
        needed = list(ranked)
        for identity in reversed(ranked):
            fewer = [other for other in needed if other != identity]
            if not self._restricted_to(draft, *fewer).missing_values():
                needed = fewer
        return tuple(needed)

    def _restricted_to(self, draft: ClaimDraft, *identities: str) -> ClaimDraft:
        """Return the draft restricted to these reservations."""
        reserved = self._table.with_value(draft.reqs, labels.CAPACITY_TYPE, labels.RESERVED)
        if reserved == IMPOSSIBLE:
            return draft.narrowed(IMPOSSIBLE)
        if len(identities) == 1:
            return draft.narrowed(self._table.with_value(reserved, labels.RESERVATION_ID, identities[0]))
        asked = self._table.intern(Requirements([Requirement.one_of(labels.RESERVATION_ID, *identities)]))
        return draft.narrowed(self._table.narrowed(reserved, asked=asked))

    def open(self, claim: InFlightClaim) -> None:
        """Assign the claim one place in each reservation that was chosen for it."""
        for identity in claim.reservations:
            self.left[identity] -= 1

    def shortage(self, draft: ClaimDraft) -> tuple[str, str]:
        """Report that all places are assigned."""
        return PodReason.NO_OFFERING_AVAILABLE, "all suitable capacity reservations are full"

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Only claims without a reservation: the greedy plan decides who gets the places."""
        return not claim.reservations
