"""Fits the claims of a plan into the free addresses of subnets without planning again: it drops alternative zones.

Most claims may be launched in several zones, and few plans come near the last address of one.
"""

from __future__ import annotations

from collections.abc import Sequence

from core import labels
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.capacity.addresses.address_accounting import RemainingAddresses
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.in_flight_claim import InFlightClaim


def fitted(claims: Sequence[InFlightClaim], addresses: RemainingAddresses) -> RemainingAddresses | None:
    """Restrict claims so that wherever EC2 launches each of them, every subnet has an address for it.

    Returns:
        The addresses left beside them, or None if they cannot fit; then no claim is changed.
    """
    worst = addresses.copy()
    for claim in claims:
        _take_all(claim.draft, worst)
    if not worst.is_exceeded:
        return worst
    left = addresses.copy()
    narrowed = [claim.draft for claim in claims]
    has_choice = [len(zones_of(draft)) > 1 for draft in narrowed]
    for draft in (one for one, may_choose in zip(narrowed, has_choice, strict=True) if not may_choose):
        _take_all(draft, left)
    for position in (position for position, may_choose in enumerate(has_choice) if may_choose):
        narrowed[position] = in_one_scarce_zone(narrowed[position], left)
        _take_all(narrowed[position], left)
    if left.is_exceeded:
        return None
    for claim, draft in zip(claims, narrowed, strict=True):
        claim.reqs = draft.reqs
    return left


def in_one_scarce_zone(draft: ClaimDraft, addresses: RemainingAddresses) -> ClaimDraft:
    """Return the draft in all zones with plenty of addresses, or in one zone with few: whichever is cheapest.

    Ties go to plenty, then to the zone with the most left. If no zone has room, the draft is returned unchanged.
    """
    template, table = draft.template, draft.template.types.table
    zones, scarce = zones_of(draft), addresses.scarce_zones(draft.template)
    few = [zone for zone in zones if zone in scarce]
    if not few or len(zones) == 1:
        return draft
    plenty = [zone for zone in zones if zone not in scarce]
    few = sorted((zone for zone in few if addresses.has_room(template, zone)), key=lambda z: -addresses.left[scarce[z]])
    asked = [Requirements([Requirement.one_of(labels.ZONE, *plenty)])] if plenty else []
    asked += [Requirements([Requirement.one_of(labels.ZONE, zone)]) for zone in few]
    choices = [draft.narrowed(table.narrowed(draft.reqs, asked=table.intern(one))) for one in asked]
    possible = [one for one in choices if one.is_possible]
    found = [one for one in possible if not one.missing_values()] or possible
    return min(found, key=lambda one: one.price, default=draft)


def zones_of(draft: ClaimDraft) -> tuple[str, ...]:
    """Return the zones in which a claim may be launched, sorted."""
    return draft.template.types.offerings.zones_and_capacity_types(draft.fitting_types, draft.reqs)[0]


def _take_all(draft: ClaimDraft, addresses: RemainingAddresses) -> None:
    for zone in zones_of(draft):
        addresses.take(draft.template, zone)
