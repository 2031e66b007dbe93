"""Places in reservations."""

from __future__ import annotations

import msgspec

from core import labels
from core.model.catalogue import Offering
from core.model.values.requirements import Requirement
from core.reasons.pod import PodReason
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.constraints.constraint import PlanStart
from core.scheduling.constraints.reservations import Reservations
from tests.builders import ZONES, a_pool, a_type
from tests.unit.scheduling.reading import context_of

PLAIN = a_type("m")
RESERVED = Offering("m", ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_capacity=1)
TYPE = msgspec.structs.replace(PLAIN, offerings=(*PLAIN.offerings, RESERVED))


def test_a_place_is_used_once_and_a_copy_still_has_it() -> None:
    """Otherwise, two claims rely on one reserved instance."""
    context = context_of(types=(TYPE,))
    constraints, (template,) = context.plan_constraints(()), context.templates
    reservations = constraints.reservations
    draft = ClaimDraft(template, template.offered, template.mask, context.axis.zero)
    chosen = reservations.choose(draft)
    assert chosen is not None
    assert chosen[1] == ("cr-1",)
    before = constraints.copy().reservations
    claim = InFlightClaim(0, template, chosen[0], template.mask, context.axis.zero, reservations=chosen[1])
    reservations.open(claim)
    assert (reservations.left, before.left) == ({"cr-1": 0}, {"cr-1": 1})
    assert not reservations.may_replace(claim, pods_wait=False)
    again = reservations.choose(reservations.narrowed(draft))
    assert again is not None
    assert again[1] == ()


def test_a_claim_cannot_use_a_full_reservation() -> None:
    """Otherwise, the full reservation, which costs nothing, determines its zone."""
    context = context_of(types=(msgspec.structs.replace(PLAIN, offerings=(RESERVED,)),))
    reservations = Reservations(PlanStart(context.templates, context.remaining.limits(()), context.table))
    (template,) = context.templates
    draft = ClaimDraft(template, template.offered, template.mask, context.axis.zero)
    assert reservations.narrowed(draft) is draft
    reservations.left["cr-1"] = 0
    assert not reservations.narrowed(draft).is_possible
    assert reservations.shortage(draft)[0] == PodReason.NO_OFFERING_AVAILABLE


def test_a_claim_does_without_a_reservation_that_offers_too_little_choice() -> None:
    """MinValues ask for two types and the reservation has one; with both types elsewhere, it is left to other claims."""
    pool = a_pool("default", Requirement.of(labels.INSTANCE_TYPE, "Exists", min_values=2))
    for types, chosen_ones in (((TYPE, a_type("n")), ()), ((TYPE,), ("cr-1",))):
        context = context_of(types=types, node_pools=(pool,))
        (template,) = context.templates
        draft = ClaimDraft(template, template.offered, template.mask, context.axis.zero, template.min_values)
        chosen = context.plan_constraints(()).reservations.choose(draft)
        assert chosen is not None
        assert chosen[1] == chosen_ones
        offered = context.table[chosen[0]].of(labels.CAPACITY_TYPE)
        assert offered.has(labels.RESERVED) is bool(chosen_ones), "without a place, it may not be launched into one"
