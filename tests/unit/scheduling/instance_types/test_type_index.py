"""What is known of a list of instance types without any pod."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.values.quantity import nanodollars
from core.scheduling.instance_types.type_index import TypeIndex, offering_labels
from core.scheduling.primitives.resource_vector import ResourceAxis
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


def reserving(name: str, *places: int, available: bool = True) -> InstanceType:
    """A type with one reservation, seen with so many places in each of several zones."""
    reserved = (
        Offering(name, zone, labels.RESERVED, 0, available=available, reservation_id="cr-1", reservation_capacity=left)
        for zone, left in zip(ZONES, places, strict=False)
    )
    return replace(priced(name, 0.1), offerings=tuple(reserved))


@pytest.mark.parametrize("places", [(2, 5), (5, 2)])
def test_of_what_is_said_of_a_reservation_the_least_holds(places: tuple[int, int]) -> None:
    """If a list were put together from two answers, the plan would launch more than the reservation has."""
    assert TypeIndex([reserving("a", *places)]).reservations == {"cr-1": 2}
    assert TypeIndex([reserving(name, left) for name, left in zip("ab", places, strict=True)]).reservations == {
        "cr-1": 2
    }


def test_a_reservation_without_an_available_offering_is_none() -> None:
    assert TypeIndex([reserving("a", 3, available=False)]).reservations == {}


def test_amounts_are_those_of_the_axis_that_is_asked_for() -> None:
    """The last result is kept; another snapshot may ask for other resources, or for none."""
    index = TypeIndex([a_type("a", cpu="2"), a_type("b", cpu="4")])
    cpu, memory = ResourceAxis(["cpu"]), ResourceAxis(["memory", "cpu"])
    alone = [vector[0] for vector in index.vectors(cpu)]
    assert alone == sorted(set(alone))
    assert index.vectors(cpu) is index.vectors(ResourceAxis(["cpu"]))
    assert [vector[0] for vector in index.vectors(memory)] == alone
    assert [len(vector) for vector in index.vectors(memory)] == [2, 2]
    assert list(TypeIndex([priced("a", 0.1)]).vectors(ResourceAxis([]))) == [()]
