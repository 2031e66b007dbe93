"""Where types are available, and at which price."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from core import labels
from core.model.catalogue import InstanceType, Offering
from core.model.pod import HostPort
from core.model.values.quantity import nanodollars
from core.model.values.requirements import Requirement, Requirements
from core.scheduling.instance_types import (
    OFFERING_KEYS,
    LabelMasks,
    PriceOrder,
    TypeFilter,
    TypeIndex,
    TypeOfferings,
    TypeRoom,
    cut,
    first_of_each,
    meets,
    offering_labels,
    unmet,
)
from core.scheduling.primitives import RequirementTable, ResourceAxis, TypeMask, bits
from tests.builders import ZONES, a_type

# Which types carry a label.


INDEX = TypeIndex((a_type("a", family="x"), a_type("b", family="y"), a_type("c")))
MASKS = LabelMasks(INDEX, frozenset({"family"}))


def test_types_without_the_label_meet_only_requirements_that_allow_its_absence() -> None:
    """Otherwise, `NotIn` excludes types without the label."""
    assert MASKS.mask(Requirement.one_of("family", "x")) == 0b001
    assert MASKS.mask(Requirement("family", True, ("x",))) == 0b110
    assert MASKS.mask(Requirement("family")) == 0b011


def test_a_label_unknown_to_types_excludes_none() -> None:
    """Otherwise, a NodePool's own label leaves it without types."""
    assert MASKS.mask(Requirement.one_of("team", "a")) == INDEX.full


def test_values_and_their_number() -> None:
    """Otherwise, minValues are counted wrong."""
    assert MASKS.values(INDEX.full, "family", None) == ("x", "y")
    assert MASKS.values(INDEX.full, labels.INSTANCE_TYPE, Requirement.one_of(labels.INSTANCE_TYPE, "b")) == ("b",)
    families = [
        MASKS.distinct(INDEX.full, "family", requirement) for requirement in (None, Requirement.one_of("family", "x"))
    ]
    assert (families, MASKS.distinct(INDEX.full, labels.INSTANCE_TYPE, None)) == ([2, 1], 3)


# minValues: how many different values a claim's types must keep.


TABLE = RequirementTable(labels.WELL_KNOWN)
CHEAP = tuple(a_type(f"a{n}", price=0.1 + n / 100, family="a") for n in range(5))
DEAR = (a_type("b0", price=5.0, family="b"), a_type("c0", price=6.0, family="c"))
TYPES = TypeFilter.of(TypeIndex((*CHEAP, *DEAR)), frozenset({"family"}), TABLE, ResourceAxis(["cpu"]))
ANY = TABLE.conjunction(())


def test_a_cut_keeps_expensive_types_that_bring_a_value() -> None:
    """Otherwise, a claim is refused because of minValues that its types met."""
    assert TYPES.names(cut(TYPES, TYPES.full, ANY, {}, 2)) == ("a0", "a1")
    assert TYPES.names(cut(TYPES, TYPES.full, ANY, {"family": 3}, 4)) == ("a0", "a1", "b0", "c0")


def test_missing_values_are_reported_by_key() -> None:
    """Otherwise, BestEffort does not know how far to lower minValues."""
    assert unmet(TYPES, TYPES.full, {"family": 4, labels.INSTANCE_TYPE: 7}, ANY) == {"family": 3}


def test_unreachable_min_values_keep_all_values_that_exist() -> None:
    """Otherwise, a claim under BestEffort loses the variety that it can have."""
    assert first_of_each(TYPES, [0, 1, 5, 6], {"family": 9}, ANY) == {0, 5, 6}


def test_as_many_values_as_required_are_enough() -> None:
    """Otherwise, a claim names an expensive type that nothing asks for."""
    assert first_of_each(TYPES, [0, 1, 5, 6], {"family": 2}, ANY) == {0, 5}


# Any set of types by price.


@given(st.dictionaries(st.integers(0, 11), st.integers(1, 5)), st.sets(st.integers(0, 11)))
def test_a_set_is_listed_in_the_order_of_sorting_it(prices: dict[int, int], members: set[int]) -> None:
    """Otherwise, the launch begins with a more expensive type."""
    order = PriceOrder(prices, 12)
    expected = sorted((price, position) for position, price in prices.items() if position in members)
    assert list(order.among(bits(members))) == expected
    assert list(order.positions_among(bits(members))) == [position for _, position in expected]


# A filter below a price equals a filter over the cheaper offerings alone, whatever was asked before.


KEYS = frozenset({labels.ARCH, labels.OS, "family"})
TYPE_FILTER_TYPES = (
    a_type("a.large", cpu="2", price=0.1, zones=ZONES[:1], family="a"),
    a_type("a.xlarge", cpu="4", price=0.2, zones=ZONES[:2], family="a"),
    a_type("b.large", cpu="2", price=0.3, zones=ZONES[1:], family="b"),
    a_type("b.xlarge", cpu="4", price=0.6, family="b"),
)
TYPE_FILTER_ASKED = (
    (),
    (Requirement.one_of(labels.ZONE, ZONES[1]),),
    (Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND),),
    (Requirement.one_of("family", "b"), Requirement.one_of(labels.ZONE, ZONES[0], ZONES[2])),
)


def a_filter(types: tuple[InstanceType, ...], table: RequirementTable) -> TypeFilter:
    return TypeFilter.of(TypeIndex(types), KEYS, table, ResourceAxis(["cpu"]))


def cheaper(types: tuple[InstanceType, ...], price: int) -> tuple[InstanceType, ...]:
    return tuple(
        msgspec.structs.replace(instance_type, offerings=tuple(o for o in instance_type.offerings if o.price < price))
        for instance_type in types
    )


def answers(types: TypeFilter, table: RequirementTable) -> Iterator[object]:
    """Every query of a filter, for some requirements and sets of types."""
    for reqs in map(table.conjunction, TYPE_FILTER_ASKED):
        mask = types.mask(reqs)
        yield mask
        for among in (mask, types.full, TypeMask(0b0110)):
            yield types.offerings.cheapest(among, reqs)
            yield types.offerings.in_price_order(among, reqs)
            yield types.offerings.zones_and_capacity_types(among, reqs)
            yield types.names_in_price_order(among, reqs)
            yield [types.values(among, reqs, key) for key in (labels.ZONE, labels.CAPACITY_TYPE, "family")]
            yield [types.distinct(among, key, reqs) for key in (labels.ZONE, labels.INSTANCE_TYPE, "family")]
            yield types.room.fits(among, (1500,)), types.room.fitting(among, (1500,)), types.room.front(among)
        yield list(types.offerings.by_labels(reqs))


@pytest.mark.parametrize("price", [0.05, 0.11, 0.25, 1.0])
def test_a_filter_below_a_price_is_that_of_the_cheaper_offerings(price: float) -> None:
    """Otherwise, a consolidation launches a node as expensive as those it replaces, or misses a cheaper one."""
    table = RequirementTable(labels.WELL_KNOWN | KEYS)
    types = a_filter(TYPE_FILTER_TYPES, table)
    list(answers(types, table))
    answered = list(answers(types.below(nanodollars(price)), table))
    assert answered == list(answers(a_filter(cheaper(TYPE_FILTER_TYPES, nanodollars(price)), table), table))


def test_daemonsets_use_room_and_ports_and_do_not_change_prices() -> None:
    """Otherwise, a node is opened that its DaemonSets' pods alone fill."""
    table = RequirementTable(labels.WELL_KNOWN | KEYS)
    types = a_filter(TYPE_FILTER_TYPES, table)
    everything = table.conjunction(())
    assert types.room.fitting(types.full, (2000,)) == types.full
    less = types.less(((TypeMask(0b0101), (500,), ()), (TypeMask(0b1010), (0,), ())))
    assert types.less(((TypeMask(0b0101), (500,), ()), (TypeMask(0b1010), (0,), ()))) is less
    assert less.names(less.room.fitting(less.full, (2000,))) == ("a.xlarge", "b.xlarge")
    assert less.room.least_overhead(TypeMask(0b0101)) == (500,)
    assert types.room.fitting(types.full, (2000,)) == types.full
    assert less.names_in_price_order(less.full, everything) == types.names_in_price_order(types.full, everything)


# What is known of a list of instance types without any pod.


TYPE_INDEX_ON_DEMAND = (ZONES[0], labels.ON_DEMAND, "", "", "")


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
    assert index.offered[TYPE_INDEX_ON_DEMAND] == 0b11
    assert cheap.offered[TYPE_INDEX_ON_DEMAND] == 0b01
    assert [position for _, position in cheap.prices[TYPE_INDEX_ON_DEMAND]] == [0]
    assert not index.below(nanodollars(0.1)).offered


def test_an_offering_in_a_reservation_has_its_labels() -> None:
    """Pods that demand a reservation select nodes by them."""
    reserved = Offering("a", ZONES[0], labels.RESERVED, 0, reservation_id="cr-1", reservation_type="default")
    zone, capacity_type, reservation, kind, _ = offering_labels(reserved)
    assert (zone, capacity_type, reservation, kind) == (ZONES[0], labels.RESERVED, "cr-1", "default")


def reserving(name: str, *places: int, available: bool = True) -> InstanceType:
    """A type with one reservation, seen with so many places in each of several zones."""
    reserved = (
        Offering(
            name, zone, labels.RESERVED, 0, available=available, reservation_id="cr-1", reservation_capacity=places_left
        )
        for zone, places_left in zip(ZONES, places, strict=False)
    )
    return replace(priced(name, 0.1), offerings=tuple(reserved))


@pytest.mark.parametrize("places", [(2, 5), (5, 2)])
def test_of_what_is_said_of_a_reservation_the_least_holds(places: tuple[int, int]) -> None:
    """If a list were put together from two answers, the plan would launch more than the reservation has."""
    assert TypeIndex([reserving("a", *places)]).reservations == {"cr-1": 2}
    assert TypeIndex(
        [reserving(name, places_left) for name, places_left in zip("ab", places, strict=True)]
    ).reservations == {"cr-1": 2}


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


TYPE_OFFERINGS_TYPES = (a_type("a", price=1.0, zones=ZONES[:1]), a_type("b", price=0.5, zones=ZONES[1:2]))
TYPE_OFFERINGS_INDEX = TypeIndex(TYPE_OFFERINGS_TYPES)
OFFERINGS = TypeOfferings(TYPE_OFFERINGS_INDEX, TABLE)
ON_DEMAND = TABLE.conjunction((Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND),))


def test_the_cheapest_offering_meets_the_requirements() -> None:
    """Otherwise, a claim has the price of spot that it may not use."""
    assert OFFERINGS.cheapest(TYPE_OFFERINGS_INDEX.full, ANY) == nanodollars(0.2)
    assert OFFERINGS.cheapest(TYPE_OFFERINGS_INDEX.full, ON_DEMAND) == nanodollars(0.5)
    assert list(OFFERINGS.positions_in_price_order(TYPE_OFFERINGS_INDEX.full, ON_DEMAND)) == [1, 0]


def test_zones_are_those_of_the_remaining_types() -> None:
    """Otherwise, a pod is placed in a zone without any type."""
    only_a = OFFERINGS.mask(Requirements((Requirement.one_of(labels.ZONE, ZONES[0]),)))
    assert only_a == 0b01
    assert OFFERINGS.zones_and_capacity_types(only_a, ON_DEMAND) == ((ZONES[0],), (labels.ON_DEMAND,))
    assert OFFERINGS.values(TYPE_OFFERINGS_INDEX.full, ANY, labels.ZONE) == ZONES[:2]


def test_an_offering_meets_requirements_or_does_not() -> None:
    """Otherwise, an explanation names the wrong zone."""
    (offering, *_) = TYPE_OFFERINGS_TYPES[0].offerings
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
    replace(MIXED[4], offerings=tuple(replace(offering, available=False) for offering in MIXED[4].offerings)),
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
    offering_positions = []
    for position, instance_type in enumerate(MIXED):
        for offering in instance_type.offerings:
            there = _labels(offering)
            is_met = all(r.has(there[r.key]) if r.key in there else r.tolerates_absence for r in asked)
            if among >> position & 1 and offering.available and is_met:
                offering_positions.append((position, offering))
    return offering_positions


def _labels(offering: Offering) -> dict[str, str]:
    own = {labels.ZONE: offering.zone, labels.CAPACITY_TYPE: offering.capacity_type}
    return own | offering.reservation_labels()


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("among", [0b11111, 0b00110, 0b00100, 0b01000, 0])
def test_every_answer_is_that_of_reading_all_offerings(asked: tuple[Requirement, ...], among: int) -> None:
    """Otherwise, a claim has a zone, a price or a reservation that none of its types has."""
    offerings, reqs, mask = TypeOfferings(TypeIndex(MIXED), TABLE), TABLE.conjunction(asked), TypeMask(among)
    expected = _found(asked, among)
    prices = {position: min(o.price for p, o in expected if p == position) for position, _ in expected}
    in_order = sorted((price, position) for position, price in prices.items())
    assert offerings.in_price_order(mask, reqs) == in_order
    assert list(offerings.positions_in_price_order(mask, reqs)) == [position for _, position in in_order]
    assert offerings.cheapest(mask, reqs) == (in_order[0][0] if in_order else None)
    zones, capacity_types = {o.zone for _, o in expected}, {o.capacity_type for _, o in expected}
    assert offerings.zones_and_capacity_types(mask, reqs) == (tuple(sorted(zones)), tuple(sorted(capacity_types)))
    for key in OFFERING_KEYS:
        values = {_labels(o)[key] for _, o in expected if key in _labels(o)}
        assert offerings.values(mask, reqs, key) == tuple(sorted(values))


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
    assert [meets(offering, Requirements((exists,))) for offering in (plain, reserved)] == [False, True]
    assert [meets(offering, Requirements((absent,))) for offering in (plain, reserved)] == [True, False]


def test_below_a_price_are_the_offerings_that_cost_less() -> None:
    """A replacement that costs as much as the node saves nothing."""
    offerings = TypeOfferings(TypeIndex(MIXED), TABLE).below(nanodollars(0.5))
    assert offerings.in_price_order(TypeMask(0b11111), ON_DEMAND) == []
    assert [position for _, position in offerings.in_price_order(TypeMask(0b11111), ANY)] == [0, 1, 2]
    assert offerings.cheapest(TypeMask(0b11111), TABLE.conjunction(ASKED[3])) == nanodollars(0.2)


def test_a_reservation_takes_what_its_scarcest_offering_takes() -> None:
    """Otherwise, a plan launches more instances than the reservation has."""
    assert TypeOfferings(TypeIndex(MIXED), TABLE).reservations == {f"cr-{ZONES[0]}": 1, f"cr-{ZONES[1]}": 2}


# How much types hold.


TYPE_ROOM_TYPES = (msgspec.structs.replace(a_type("a", cpu="2"), attach_limit=3), a_type("b", cpu="4"))
ROOM = TypeRoom(TYPE_ROOM_TYPES, [(2000, 8), (4000, 4)], [(0, 0), (0, 0)], [(), (HostPort(80),)])


def test_what_fits_any_type() -> None:
    """Otherwise, a node is opened that is too small."""
    assert ROOM.fits(0b11, (2000, 8))
    assert not ROOM.fits(0b11, (4000, 8))
    assert ROOM.fitting(0b11, (3000, 1)) == 0b10


def test_no_pod_fits_where_there_are_no_types() -> None:
    """An EC2NodeClass without instance types must leave its pods pending with a reason, not end the plan."""
    assert not TypeRoom((), [], [], []).fits(0, (2000, 8))


def test_ports_and_attachments_of_types() -> None:
    """Otherwise, a pod is placed beside a DaemonSet's pod with its port, or on a node that cannot attach its volumes."""
    assert ROOM.port_mask((HostPort(80),)) == 0b01
    assert ROOM.port_mask(()) == 0b11
    assert (ROOM.attach_mask(3), ROOM.attach_mask(4)) == (0b11, 0b10)


def test_limits_count_capacity_before_any_reservation() -> None:
    """Otherwise, a NodePool's limits are charged less than the node has."""
    less = ROOM.less([(TypeMask(0b01), (500, 0), ())])
    assert less.capacities("cpu").largest(0b01) == 2000
    assert less.fitting(0b11, (2000, 0)) == 0b10


def test_min_values_count_what_the_requirements_leave() -> None:
    """A pod that demands a zone leaves one, however many its types are offered in (Karpenter, SatisfiesMinValues)."""
    table = RequirementTable(frozenset({"family"}))
    types = TypeFilter.of(TypeIndex(MIXED), frozenset({"family"}), table, ResourceAxis(["cpu"]))
    everywhere = {key for _, offering in _found((), types.full) for key in [offering.zone]}
    zone = min(everywhere)
    anywhere, there = table.conjunction(()), table.conjunction((Requirement.one_of(labels.ZONE, zone),))
    assert types.distinct(types.full, labels.ZONE, anywhere) == len(everywhere) > 1
    assert types.distinct(types.full, labels.ZONE, there) == 1
    assert unmet(types, types.full, {labels.ZONE: 2}, there) == {labels.ZONE: 1}
    assert unmet(types, types.full, {labels.ZONE: 2}, anywhere) == {}
