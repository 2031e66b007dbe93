"""Where types are available, and at which price."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from core import labels
from core.model.catalogue import Offering
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.instance_types.type_index import OFFERING_KEYS, TypeIndex
from core.scheduling.instance_types.type_offerings import TypeOfferings, meets
from core.scheduling.primitives.handles import TypeMask
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


def _reserved(name: str, zone: str, kind: str, capacity: int) -> Offering:
    return Offering(
        name,
        zone,
        labels.RESERVED,
        7,
        reservation_id=f"cr-{zone}",
        reservation_capacity=capacity,
        reservation_type=kind,
    )


MIXED = (
    a_type("a", price=1.0, zones=ZONES[:1]),
    a_type("b", price=0.5, zones=ZONES[1:2], capacity_types=(labels.ON_DEMAND,)),
    a_type("c", price=0.5, zones=ZONES[:2]),
    a_type("d", price=0.1, zones=()),
    a_type("e", price=0.3),
)
MIXED = (
    replace(MIXED[0], offerings=(*MIXED[0].offerings, _reserved("a", ZONES[0], "default", 3))),
    replace(MIXED[1], offerings=(*MIXED[1].offerings, _reserved("b", ZONES[1], "", 2))),
    replace(MIXED[2], offerings=(*MIXED[2].offerings, _reserved("c", ZONES[0], "default", 1))),
    MIXED[3],
    replace(MIXED[4], offerings=tuple(replace(one, available=False) for one in MIXED[4].offerings)),
)
"""Types with equal prices, with reservations, without offerings, and without an offering that is available."""

ASKED = (
    (),
    (Requirement.one_of(labels.ZONE, ZONES[1]),),
    (Requirement.one_of(labels.ZONE, ZONES[2]),),
    (Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT), Requirement.one_of(labels.ZONE, *ZONES[:2])),
    (Requirement.of(labels.RESERVATION_ID, "Exists"),),
    (Requirement.of(labels.RESERVATION_ID, "DoesNotExist"),),
    (Requirement.of(labels.RESERVATION_ID, "NotIn", [f"cr-{ZONES[0]}"]),),
    (Requirement.one_of(labels.RESERVATION_TYPE, "default"),),
)


def _found(asked: tuple[Requirement, ...], among: int) -> list[tuple[int, Offering]]:
    """The available offerings that meet the requirements, each with the position of its type, read one by one."""
    found = []
    for position, one in enumerate(MIXED):
        for offering in one.offerings:
            there = _labels(offering)
            is_met = all(r.has(there[r.key]) if r.key in there else r.tolerates_absence for r in asked)
            if among >> position & 1 and offering.available and is_met:
                found.append((position, offering))
    return found


def _labels(offering: Offering) -> dict[str, str]:
    own = {labels.ZONE: offering.zone, labels.CAPACITY_TYPE: offering.capacity_type}
    return own | offering.reservation_labels()


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("among", [0b11111, 0b00110, 0b00100, 0b01000, 0])
def test_every_answer_is_that_of_reading_all_offerings(asked: tuple[Requirement, ...], among: int) -> None:
    """Otherwise, a claim has a zone, a price or a reservation that none of its types has."""
    offerings, reqs, mask = TypeOfferings(TypeIndex(MIXED), TABLE), TABLE.conjunction(asked), TypeMask(among)
    found = _found(asked, among)
    prices = {position: min(o.price for p, o in found if p == position) for position, _ in found}
    in_order = sorted((price, position) for position, price in prices.items())
    assert offerings.in_price_order(mask, reqs) == in_order
    assert list(offerings.positions_in_price_order(mask, reqs)) == [position for _, position in in_order]
    assert offerings.cheapest(mask, reqs) == (in_order[0][0] if in_order else None)
    zones, capacity_types = {o.zone for _, o in found}, {o.capacity_type for _, o in found}
    assert offerings.zones_and_capacity_types(mask, reqs) == (tuple(sorted(zones)), tuple(sorted(capacity_types)))
    for key in OFFERING_KEYS:
        values = {_labels(o)[key] for _, o in found if key in _labels(o)}
        assert offerings.values(mask, reqs, key) == tuple(sorted(values))
        every = {_labels(o)[key] for _, o in _found((), among) if key in _labels(o)}
        assert offerings.distinct(mask, key) == len(every)


@pytest.mark.parametrize("asked", ASKED)
def test_types_and_their_prices_by_labels_are_those_of_the_offerings(asked: tuple[Requirement, ...]) -> None:
    """Otherwise, a claim keeps a type that has no offering in its zones."""
    offerings, found = TypeOfferings(TypeIndex(MIXED), TABLE), _found(asked, 0b11111)
    assert offerings.mask(Requirements(asked)) == sum(1 << position for position in {p for p, _ in found})
    entries = sorted((o.zone, o.capacity_type, o.price, p) for p, o in found)
    listed = list(offerings.by_labels(TABLE.conjunction(asked)))
    assert sorted((zone, kind, *entry) for (zone, kind, *_), some in listed for entry in some) == entries
    assert all(list(some) == sorted(some) for _, some in listed)


def test_an_offering_without_a_reservation_meets_only_what_tolerates_its_absence() -> None:
    """Otherwise, a pod that needs a reservation is launched outside of it."""
    (plain, *_, reserved) = MIXED[0].offerings
    exists, absent = (Requirement.of(labels.RESERVATION_ID, operator) for operator in ("Exists", "DoesNotExist"))
    assert [meets(one, Requirements((exists,))) for one in (plain, reserved)] == [False, True]
    assert [meets(one, Requirements((absent,))) for one in (plain, reserved)] == [True, False]


def test_below_a_price_are_the_offerings_that_cost_less() -> None:
    """A replacement that costs as much as the node saves nothing."""
    offerings = TypeOfferings(TypeIndex(MIXED), TABLE).below(nanodollars(0.5))
    assert offerings.in_price_order(TypeMask(0b11111), ON_DEMAND) == []
    assert [position for _, position in offerings.in_price_order(TypeMask(0b11111), ANY)] == [0, 1, 2]
    assert offerings.cheapest(TypeMask(0b11111), TABLE.conjunction(ASKED[3])) == nanodollars(0.2)


def test_a_reservation_takes_what_its_scarcest_offering_takes() -> None:
    """Otherwise, a plan launches more instances than the reservation has."""
    assert TypeOfferings(TypeIndex(MIXED), TABLE).reservations == {f"cr-{ZONES[0]}": 1, f"cr-{ZONES[1]}": 2}
