"""Each place is assigned once, and a released place may be assigned again."""

from __future__ import annotations

from collections import Counter

from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.seat_assignment import SeatAssignment
from core.disruption.target.target_fleet import TargetFleet
from tests.builders import a_node_of
from tests.unit.disruption.nodes_for_tests import MIDDLE, SMALL, pod_on, world
from tests.unit.disruption.target.fleets_for_tests import drained, fleet_of


def an_assignment() -> tuple[TargetFleet, SeatAssignment]:
    """Two nodes go: one pod has a place on the third, the others get a new node."""
    pods = (pod_on("a", "a1", cpu="900m"), pod_on("b", "b1", cpu="900m"), pod_on("c", "c1", cpu="3100m"))
    snapshot = world(*(a_node_of(MIDDLE, name) for name in "abc"), pods=pods)
    fleet = fleet_of(snapshot)
    found = drained(fleet, "a", "b")
    claims = DisruptionPass(snapshot).named_apart(found.claims)
    return fleet, SeatAssignment(fleet, found, claims, is_gated=True)


def test_existing_places_are_used_first_and_once_each() -> None:
    _, book = an_assignment()
    first, second = book.take(0, Counter()), book.take(1, Counter())
    assert first is not None
    assert second is not None
    assert [move.to for move in first] == ["c"]
    assert [move.to for move in second] == [book.claims[0].name]
    assert book.launched == {0}
    assert book.take(1, Counter()) is None


def test_a_released_place_may_be_used_again() -> None:
    _, book = an_assignment()
    moves = book.take(0, Counter())
    assert moves is not None
    book.put_back(0, moves, [])
    assert book.take(1, Counter()) is not None
    assert not book.launched


def test_an_open_place_counts_as_spare() -> None:
    fleet, book = an_assignment()
    row = fleet.rows.row_of_pod["default/a1"]
    assert book.open_seats()[row] == 1


def test_a_new_node_is_limited_to_a_price_that_pays() -> None:
    _, book = an_assignment()
    assert not book.hold_to([0], book.claims[0].price, flexible=False)
    assert book.hold_to([0], 10**9, flexible=False)
    assert SMALL.name in book.claims[0].instance_types
