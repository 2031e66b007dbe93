"""Which reserved offerings one request asks for."""

from __future__ import annotations

from core import labels
from core.launch.reserved_selection import admits_reservation, in_one_request
from core.model.catalogue import Offering
from core.model.values.requirements import Requirement


def reserved(
    identity: str, kind: str = "default", price: int = 1, places: int = 1, *, interruptible: bool = False
) -> Offering:
    return Offering("p5.48xlarge", "zone-a", labels.RESERVED, price, True, identity, places, kind, interruptible)


def ids(*offerings: Offering) -> list[str]:
    return [offering.reservation_id for offering in in_one_request(offerings)]


def test_one_kind_and_of_each_place_the_reservation_with_most_places() -> None:
    usual = reserved("cr-1"), reserved("cr-2", places=5)
    assert ids(reserved("cr-b", "capacity-block"), *usual, reserved("cr-i", interruptible=True)) == ["cr-2"]


def test_the_kind_with_the_cheapest_offering_wins_and_one_block_is_enough() -> None:
    blocks = reserved("cr-b", "capacity-block"), reserved("cr-c", "capacity-block")
    assert ids(reserved("cr-1", price=2), *blocks) == ["cr-b"]


def test_a_claim_is_held_to_what_it_was_planned_for() -> None:
    """Another reservation's places are promised to other claims."""
    planned = [Requirement.one_of(labels.RESERVATION_ID, "cr-1")]
    assert admits_reservation(planned, reserved("cr-1"))
    assert not admits_reservation(planned, reserved("cr-2"))
    assert admits_reservation(planned, Offering("p5.48xlarge", "zone-a", labels.ON_DEMAND, 1))
    assert not admits_reservation([Requirement.one_of(labels.RESERVATION_TYPE, "capacity-block")], reserved("cr-1"))


def test_nothing_reserved_is_asked_for_where_nothing_is_offered() -> None:
    assert ids() == []


def test_every_requirement_for_a_reservation_must_hold_and_one_for_what_it_has_not_may_forbid_it() -> None:
    own = Requirement.one_of(labels.RESERVATION_ID, "cr-1")
    other = Requirement.one_of(labels.RESERVATION_TYPE, "capacity-block")
    assert not admits_reservation([own, other], reserved("cr-1"))
    assert not admits_reservation([other, own], reserved("cr-1"))
    assert admits_reservation([own, Requirement.one_of("team", "a")], reserved("cr-1"))
    untyped = reserved("cr-1", kind="")
    without = Requirement.of(labels.RESERVATION_TYPE, "DoesNotExist", [])
    assert admits_reservation([own, without], untyped)
    assert not admits_reservation([other], untyped)
    assert not admits_reservation([without], reserved("cr-1"))


def test_at_one_price_the_usual_kind_goes_before_blocks_and_these_before_what_may_be_interrupted() -> None:
    usual, block = reserved("cr-u"), reserved("cr-b", "capacity-block")
    interruptible = reserved("cr-a", interruptible=True)
    for offered, chosen in (
        ((interruptible, block, usual), ["cr-u"]),
        ((interruptible, block), ["cr-b"]),
        ((interruptible, usual), ["cr-u"]),
        ((interruptible,), ["cr-a"]),
    ):
        assert ids(*offered) == ids(*reversed(offered)) == chosen


def test_of_reservations_with_as_many_places_the_first_in_the_order_is_taken() -> None:
    """Otherwise, a claim that is selected again would be stored with another reservation."""
    assert ids(reserved("cr-2", places=3), reserved("cr-1", places=3)) == ["cr-1"]
    assert ids(reserved("cr-i", interruptible=True), reserved("cr-b", "capacity-block")) == ["cr-b"]
