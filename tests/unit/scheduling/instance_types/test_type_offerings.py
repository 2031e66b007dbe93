"""Where types are available, and at which price."""

from __future__ import annotations

from core import labels
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.instance_types.type_index import TypeIndex
from core.scheduling.instance_types.type_offerings import TypeOfferings, meets
from core.scheduling.primitives.requirement_table import RequirementTable
from tests.builders import ZONES, a_type

TABLE = RequirementTable(labels.WELL_KNOWN)
TYPES = (a_type("a", price=1.0, zones=ZONES[:1]), a_type("b", price=0.5, zones=ZONES[1:2]))
INDEX = TypeIndex(TYPES)
OFFERINGS = TypeOfferings(INDEX, TABLE)
ANY = TABLE.conjunction(())
ON_DEMAND = TABLE.conjunction((Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND),))


def test_the_cheapest_offering_meets_the_requirements() -> None:
    """Otherwise, a claim has the price of spot that it may not use."""
    assert OFFERINGS.cheapest(INDEX.full, ANY) == nanodollars(0.2)
    assert OFFERINGS.cheapest(INDEX.full, ON_DEMAND) == nanodollars(0.5)
    assert list(OFFERINGS.positions_in_price_order(INDEX.full, ON_DEMAND)) == [1, 0]


def test_zones_are_those_of_the_remaining_types() -> None:
    """Otherwise, a pod is placed in a zone without any type."""
    only_a = OFFERINGS.mask(Requirements((Requirement.one_of(labels.ZONE, ZONES[0]),)))
    assert only_a == 0b01
    assert OFFERINGS.zones_and_capacity_types(only_a, ON_DEMAND) == ((ZONES[0],), (labels.ON_DEMAND,))
    assert OFFERINGS.values(INDEX.full, ANY, labels.ZONE) == ZONES[:2]


def test_an_offering_meets_requirements_or_does_not() -> None:
    """Otherwise, an explanation names the wrong zone."""
    (offering, *_) = TYPES[0].offerings
    assert meets(offering, Requirements((Requirement.one_of(labels.ZONE, ZONES[0]),)))
    assert not meets(offering, Requirements((Requirement.one_of(labels.ZONE, ZONES[1]),)))
