"""What is known of a list of instance types without any pod."""

from __future__ import annotations

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.values.quantity import nanodollars
from core.scheduling.instance_types.type_index import TypeIndex, offering_labels
from tests.builders import ZONES, a_type

ON_DEMAND = (ZONES[0], labels.ON_DEMAND, "", "", "")


def priced(name: str, price: float) -> InstanceType:
    return a_type(name, price=price, capacity_types=(labels.ON_DEMAND,))


def test_positions_follow_the_names() -> None:
    """Otherwise, ties between types depend on the order of the catalogue's file."""
    index = TypeIndex([priced("b", 0.1), priced("a", 0.2)])
    assert index.names == ["a", "b"]
    assert index.full == 0b11


def test_offerings_below_a_price_are_those_that_cost_less() -> None:
    """Consolidation must save money: an offering at the same price does not."""
    index = TypeIndex([priced("a", 0.1), priced("b", 0.2)])
    cheap = index.below(nanodollars(0.2))
    assert index.offered[ON_DEMAND] == 0b11
    assert cheap.offered[ON_DEMAND] == 0b01
    assert [position for _, position in cheap.prices[ON_DEMAND]] == [0]
    assert not index.below(nanodollars(0.1)).offered


def test_an_offering_in_a_reservation_has_its_labels() -> None:
    """Pods that demand a reservation select nodes by them."""
    reserved = Offering("a", ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_type="default")
    zone, capacity_type, reservation, kind, _ = offering_labels(reserved)
    assert (zone, capacity_type, reservation, kind) == (ZONES[0], labels.RESERVED, "cr-1", "default")
