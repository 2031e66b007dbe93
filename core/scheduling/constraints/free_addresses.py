"""Applies the free addresses of subnets to a plan that would take more than there are.

Most plans are far from that and are only compared with them (`core.scheduling.addresses`). If one is not,
this constraint is part of the plan: each claim may be launched in at most one zone with few addresses, and is charged there.
"""

from __future__ import annotations

from collections.abc import Sequence

from core import labels
from core.model.values.requirements import Requirement, Requirements
from core.reasons.code import Refusal
from core.reasons.pods import SubnetsFull
from core.scheduling.addresses import RemainingAddresses, fitted, in_one_scarce_zone, zones_of
from core.scheduling.constraints.constraint import Constraint, PlanStart
from core.scheduling.new_node import ClaimDraft, InFlightClaim


class FreeAddresses(Constraint):
    """The free addresses that the plan leaves."""

    def __init__(self, start: PlanStart) -> None:
        self._start = start
        self._table = start.table
        self._addresses = RemainingAddresses() if start.addresses is None else start.addresses.copy()

    def copy(self) -> FreeAddresses:
        """Return an independent copy of the free addresses."""
        other = FreeAddresses(self._start)
        other._addresses = self._addresses.copy()
        return other

    @property
    def changes_drafts(self) -> bool:
        """Always true: each claim takes addresses."""
        return True

    def narrowed(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft without zones in which no subnet has an address left."""
        full = self._full(draft)
        if not full:
            return draft
        others = self._table.intern(Requirements([Requirement(labels.ZONE, True, full)]))
        return draft.narrowed(self._table.narrowed(draft.reqs, required=others))

    def narrowed_after_topology(self, draft: ClaimDraft) -> ClaimDraft:
        """Return the draft in one zone with few addresses at most, so that a charge there is exact."""
        return in_one_scarce_zone(draft, self._addresses)

    def open(self, claim: InFlightClaim) -> None:
        """Charge the claim's zone, if it has few addresses."""
        for zone in zones_of(claim.draft):
            self._addresses.take(claim.template, zone)

    def shortage(self, draft: ClaimDraft) -> Refusal:
        """Name the subnets without addresses, by zone."""
        scarce = self._addresses.scarce_zones(draft.template)
        zones = tuple((zone, tuple(scarce[zone].subnets)) for zone in self._full(draft))
        return SubnetsFull(draft.template.pool.node_class.name, zones)

    def may_replace(self, claim: InFlightClaim, *, pods_wait: bool) -> bool:
        """Only claims in zones with plenty: the greedy plan decides who gets the last addresses."""
        scarce = self._addresses.scarce_zones(claim.template)
        return not any(zone in scarce for zone in zones_of(claim.draft))

    def replace(self, replaced: Sequence[InFlightClaim], cheaper: Sequence[InFlightClaim]) -> bool:
        """Restrict the claims found to zones that have addresses beside all other claims; return False if none fit."""
        addresses_left = fitted(cheaper, self._addresses)
        if addresses_left is None:
            return False
        self._addresses = addresses_left
        return True

    def _full(self, draft: ClaimDraft) -> tuple[str, ...]:
        """Return the zones without room for a node of the NodePool, sorted."""
        zones = sorted(self._addresses.scarce_zones(draft.template))
        return tuple(zone for zone in zones if not self._addresses.has_room(draft.template, zone))
