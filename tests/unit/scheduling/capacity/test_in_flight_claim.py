"""What a claim costs while it fills."""

from __future__ import annotations

from core.catalogue.reservations import PRICE_SHARE
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from tests.builders import a_pod, a_type
from tests.unit.scheduling.reading import context_of, group_of

SMALL, LARGE = a_type("small", cpu="2", price=0.1), a_type("large", cpu="8", price=0.4)


def test_a_claim_costs_its_cheapest_type_with_room_for_its_pods() -> None:
    """Otherwise, repacking compares plans by prices that no launch has."""
    context = context_of(types=(SMALL, LARGE), pods=(a_pod("p"),))
    (template,) = context.templates
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    assert claim.price == 40_000_000
    claim.used = context.axis.vector({"cpu": 3000, "memory": 2**30, "pods": 1})
    assert claim.price == 160_000_000
    claim.commitment = "reserved"
    assert claim.price == -(-160_000_000 // PRICE_SHARE)


def test_its_signatures_are_those_of_its_pods_in_order() -> None:
    pods = (a_pod("a", labels={"app": "a"}), a_pod("b", cpu="2"))
    context = context_of(types=(LARGE,), pods=pods)
    (template,) = context.templates
    claim = InFlightClaim(0, template, template.offered, template.mask, context.axis.zero)
    groups = [group_of(context, name) for name in ("b", "a", "b")]
    for pod, group in zip((pods[1], pods[0], pods[1]), groups, strict=True):
        claim.add_pod(pod, group)
    assert claim.signatures == [group.signature for group in groups]
