"""Reservations of a class as offerings of its types."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue.node_class import (
    CAPACITY_BLOCK,
    DEFAULT_RESERVATION,
    CapacityReservation,
    EC2NodeClass,
    read_node_class,
)
from core.catalogue.reservations import (
    LEAVES_BEFORE,
    RECLAIMED_BEFORE,
    begins_at,
    ends_at,
    has_begun,
    leaves_at,
    read_upcoming,
    reclaimed_before,
    selects_reservations,
    takes_instances,
    upcoming_message,
    upcoming_of,
    with_reservations,
    written_places,
    written_upcoming,
)
from core.model.catalogue import PRICE_SHARE, SERVES_LEAST, Catalogue, Offering, paid_for
from tests.builders import NOW, a_class_manifest, a_type

# When nodes leave a reservation, and until when it takes new ones.


SECOND = timedelta(seconds=1)


def reservation(
    end: datetime | str = NOW, *, kind: str = CAPACITY_BLOCK, instance_type: str = "p5.48xlarge"
) -> CapacityReservation:
    written = end if isinstance(end, str) else end.isoformat()
    return CapacityReservation(id="cr-1", instance_type=instance_type, reservation_type=kind, end_time=written)


@pytest.mark.parametrize(
    ("instance_type", "minutes"),
    [("p5.48xlarge", 40), ("trn2.48xlarge", 40), ("trn2u.48xlarge", 70), ("p6e-gb200.36xlarge", 70)],
)
def test_nodes_of_a_block_leave_ten_minutes_before_ec2_takes_them(instance_type: str, minutes: int) -> None:
    """EC2 begins half an hour before the end, with UltraServers an hour; without these minutes they ended without a drain."""
    assert leaves_at(reservation(instance_type=instance_type)) == NOW - timedelta(minutes=minutes)


def test_instances_of_other_reservations_stay_until_the_end() -> None:
    assert leaves_at(reservation(kind=DEFAULT_RESERVATION)) == NOW


@pytest.mark.parametrize("written", ["", "soon"])
def test_an_end_that_nobody_can_read_is_none(written: str) -> None:
    assert leaves_at(reservation(written)) is None
    assert takes_instances(reservation(written), NOW)


def test_a_time_without_a_zone_is_in_utc() -> None:
    """Others may write the status; comparing such a time with ours raised a TypeError, and nothing was planned."""
    assert ends_at(reservation("2026-11-20T00:00:00")) == NOW


@pytest.mark.parametrize(("kind", "least"), [(CAPACITY_BLOCK, SERVES_LEAST), (DEFAULT_RESERVATION, timedelta(0))])
def test_a_block_takes_a_node_only_if_that_can_stay_a_while(kind: str, least: timedelta) -> None:
    """A node that leaves a minute after its launch costs its pods a restart and serves nobody."""
    found = reservation(NOW + timedelta(hours=1), kind=kind)
    leaves = leaves_at(found)
    assert leaves is not None
    assert takes_instances(found, leaves - least - SECOND)
    assert not takes_instances(found, leaves - least)


@pytest.mark.parametrize(
    ("written", "moment"),
    [
        ("2026-11-20T02:00:00+02:00", NOW),
        ("2026-11-19T16:00:00-08:00", NOW),
        ("2026-11-20T00:00:00Z", NOW),
        ("2026-11-20", NOW),
        ("", None),
        ("5", None),
    ],
)
def test_a_time_with_a_zone_is_that_moment(written: str, moment: datetime | None) -> None:
    assert ends_at(reservation(written)) == moment


def test_only_instances_of_blocks_are_taken_before_the_end() -> None:
    found = [reclaimed_before(reservation(kind=kind)) for kind in (CAPACITY_BLOCK, DEFAULT_RESERVATION, "")]
    assert found == [timedelta(minutes=30), timedelta(0), timedelta(0)]
    assert timedelta(minutes=10) == SERVES_LEAST


# Reservations that have not begun: kept in an annotation, which anybody may write, and open from their start.


def an_entry(identity: str = "cr-1", state: str = "scheduled", **changes: Any) -> dict[str, Any]:
    usual = {
        "id": identity, "instanceType": "p5.48xlarge", "availabilityZone": "us-east-1a", "state": state,
        "reservationType": "capacity-block", "startTime": "2026-11-21T11:30:00Z", "places": 2,
    }  # fmt: skip
    return {**usual, **changes}


def a_class(text: str, *begun: dict[str, Any]) -> EC2NodeClass:
    annotations = {labels.UPCOMING_RESERVATIONS: text}
    status = {"capacityReservations": list(begun)}
    return read_node_class(a_class_manifest(metadata={"annotations": annotations}, status=status))


def booked(state: str, start: str = NOW.isoformat()) -> CapacityReservation:
    return CapacityReservation(id="cr-1", state=state, start_time=start)


@pytest.mark.parametrize(
    ("state", "start", "begun"),
    [
        ("scheduled", NOW, True),
        ("scheduled", NOW + SECOND, False),
        ("payment-pending", NOW - SECOND, False),
        ("delayed", NOW - SECOND, False),
        ("active", NOW + SECOND, True),
        ("expiring", NOW, True),
    ],
)
def test_what_is_paid_begins_at_its_time_and_all_else_when_ec2_says_so(state: str, start: Any, *, begun: bool) -> None:
    """The reading is minutes old: without the time, a paid block would stand idle until the next one."""
    assert has_begun(booked(state, start.isoformat()), NOW) is begun


def test_only_what_has_not_begun_has_a_start() -> None:
    assert begins_at(booked("scheduled")) == NOW
    assert begins_at(booked("active")) is None
    assert begins_at(booked("scheduled", "soon")) is None
    assert not has_begun(booked("scheduled", "soon"), NOW)


def test_it_is_read_as_it_was_written() -> None:
    text = written_upcoming([an_entry(), an_entry("cr-2")])
    assert text is not None
    assert [one.id for one in upcoming_of(a_class(text))] == ["cr-1", "cr-2"]
    assert written_upcoming([]) is None


def test_what_the_status_lists_has_begun_and_each_counts_once() -> None:
    """Two offerings with the same places would plan each place twice."""
    text = json.dumps([an_entry(), an_entry("cr-2"), an_entry("cr-2"), an_entry("cr-3", state="active")])
    begun = {"id": "cr-1", "state": "active"}
    assert [one.id for one in upcoming_of(a_class(text, begun))] == ["cr-2"]


@pytest.mark.parametrize("text", ["", "x", "{}", "[1]", '[{"id": 1}]', "[" * 100_000, '"\ud800"', '[{"places": -1.5}]'])
def test_what_is_no_list_of_reservations_is_none(text: str) -> None:
    assert read_upcoming(text) is None
    assert upcoming_of(a_class(text)) == ()


def test_the_message_names_what_begins_when() -> None:
    """The status of Karpenter's definition has no field for it."""
    entries = [an_entry("cr-9", state="delayed"), an_entry("cr-2", "payment-pending", reservationType="default")]
    assert upcoming_message([*entries, an_entry(startTime="2026-11-20T11:30:00Z")]) == (
        "capacity block cr-1 (2 p5.48xlarge in us-east-1a) begins at 2026-11-20T11:30:00Z; "
        "capacity reservation cr-2 (2 p5.48xlarge in us-east-1a) is not paid for yet and would begin at "
        "2026-11-21T11:30:00Z; "
        "capacity block cr-9 (2 p5.48xlarge in us-east-1a) is delayed and was to begin at 2026-11-21T11:30:00Z"
    )
    assert upcoming_message([an_entry(f"cr-{number}") for number in range(7)]).endswith("; and 2 more")


def test_five_are_named_and_more_are_counted() -> None:
    """A message has room for few."""
    messages = [upcoming_message([an_entry(f"cr-{number}") for number in range(count)]) for count in (0, 1, 5, 6)]
    assert [message.count("capacity block cr-") for message in messages] == [0, 1, 5, 5]
    assert [message.endswith("; and 1 more") for message in messages] == [False, False, False, True]
    assert messages[0] == ""


SUBNETS = [{"id": "subnet-1", "zone": "us-east-1a"}]
ENTRY = {
    "id": "cr-1",
    "instanceType": "m5.large",
    "availabilityZone": "us-east-1a",
    "reservationType": "default",
    "state": "active",
}


BLOCK = {"reservationType": "capacity-block"}
CLOSED_BEFORE = RECLAIMED_BEFORE + LEAVES_BEFORE + SERVES_LEAST


def offerings(entry: dict[str, Any], places: str | None = '{"cr-1": 3}', held: int = 0) -> list[Offering]:
    annotations = {} if places is None else {labels.RESERVATION_PLACES: places}
    status = {"subnets": SUBNETS, "capacityReservations": [{**ENTRY, **entry}]}
    manifest = a_class_manifest(metadata={"annotations": annotations}, status=status)
    types = (a_type("m5.large", price=0.1, zones=("us-east-1a",)), a_type("m5.xlarge", zones=("us-east-1a",)))
    found = with_reservations(Catalogue(types), [manifest], {"cr-1": held}, NOW)
    assert found.default == types
    return [o for t in found.types_for("default") for o in t.offerings if o.capacity_type == labels.RESERVED]


def test_a_place_costs_next_to_nothing_and_claims_use_places_up() -> None:
    (found,) = offerings({}, held=1)
    assert found == Offering(
        "m5.large", "us-east-1a", "reserved", 10**8 // PRICE_SHARE, True, "cr-1", 2, "default", interruptible=False
    )
    assert found.reservation_labels() == {
        labels.RESERVATION_ID: "cr-1",
        labels.RESERVATION_TYPE: "default",
        labels.RESERVATION_INTERRUPTIBLE: "false",
    }


@pytest.mark.parametrize(
    ("entry", "places", "held"),
    [
        ({}, '{"cr-1": 3}', 3),
        ({}, '{"cr-1": 3}', 4),
        ({}, None, 0),
        ({}, "no JSON", 0),
        ({"state": "expiring"}, '{"cr-1": 3}', 0),
        ({"endTime": (NOW - timedelta(minutes=1)).isoformat()}, '{"cr-1": 3}', 0),
        ({**BLOCK, "endTime": (NOW + CLOSED_BEFORE).isoformat()}, '{"cr-1": 3}', 0),
        ({"availabilityZone": "us-east-1b"}, '{"cr-1": 3}', 0),
    ],
)
def test_what_takes_nothing_only_prices_nodes(entry: dict[str, Any], places: str | None, held: int) -> None:
    (found,) = offerings(entry, places, held)
    assert not found.available


@pytest.mark.parametrize("entry", [BLOCK, {}])
def test_a_reservation_takes_instances_until_its_end_and_a_block_while_they_can_stay(entry: dict[str, Any]) -> None:
    """The state of a block is as old as the last run of `reconcile`: after an outage, nodes were launched to go at once."""
    margin = CLOSED_BEFORE if entry else timedelta()
    (found,) = offerings({**entry, "endTime": (NOW + margin + timedelta(seconds=1)).isoformat()})
    assert found.available


def upcoming(now: datetime, held: int = 0, **changes: Any) -> list[Offering]:
    """The offerings of a reservation that had not begun at the last reading."""
    entry = {**ENTRY, **BLOCK, "state": "scheduled", "startTime": NOW.isoformat(), "places": 3, **changes}
    annotations = {labels.UPCOMING_RESERVATIONS: written_upcoming([entry])}
    manifest = a_class_manifest(metadata={"annotations": annotations}, status={"subnets": SUBNETS})
    types = (a_type("m5.large", price=0.1, zones=("us-east-1a",)),)
    found = with_reservations(Catalogue(types), [manifest], {"cr-1": held}, now)
    return [o for t in found.types_for("default") for o in t.offerings if o.capacity_type == labels.RESERVED]


def test_a_booked_block_is_offered_from_its_start_on() -> None:
    """The reading may be minutes old, and the block is paid for from its first second."""
    (before,), (after,) = upcoming(NOW - timedelta(seconds=1)), upcoming(NOW, held=1)
    assert (before.available, before.reservation_capacity) == (False, 3)
    assert (after.available, after.reservation_capacity, after.reservation_type) == (True, 2, "capacity-block")


def test_a_booked_block_that_is_not_paid_for_is_not_offered_at_its_start() -> None:
    (found,) = upcoming(NOW + timedelta(minutes=1), state="payment-pending")
    assert not found.available


def test_a_class_without_reservations_keeps_the_very_types() -> None:
    """Caches go by the tuple's identity."""
    catalogue = Catalogue((), {"default": (a_type("m5.large"),)})
    found = with_reservations(catalogue, [a_class_manifest()], {}, NOW)
    assert found.types_for("default") is catalogue.types_for("default")


def test_places_are_written_as_they_are_read() -> None:
    (found,) = offerings({}, written_places({"cr-2": 1, "cr-1": 7}))
    assert found.reservation_capacity == 7


@pytest.mark.parametrize("status", ["x", 5, True, ["x"]])
def test_a_status_that_is_no_status_has_no_reservations(status: object) -> None:
    """One such class stopped every plan."""
    catalogue = Catalogue((a_type("m5.large"),))
    assert with_reservations(catalogue, [{**a_class_manifest(), "status": status}], {}, NOW) == catalogue


@pytest.mark.parametrize(
    ("price", "counts"), [(0, 0), (1, 1), (PRICE_SHARE, 1), (2 * PRICE_SHARE - 1, 1), (2 * PRICE_SHARE, 2)]
)
def test_a_paid_place_costs_a_ten_millionth_and_at_least_one(price: int, counts: int) -> None:
    """Only a type without a price is free."""
    assert PRICE_SHARE == 10_000_000
    assert paid_for(price) == counts


@pytest.mark.parametrize(
    ("manifest", "selects"),
    [
        ({}, False),
        ({"spec": None}, False),
        ({"spec": {"capacityReservationSelectorTerms": []}}, False),
        ({"spec": {"capacityReservationSelectorTerms": [{"id": "cr-1"}]}}, True),
    ],
)
def test_a_class_selects_reservations_by_terms(manifest: dict[str, Any], *, selects: bool) -> None:
    assert selects_reservations(manifest) is selects


A, B = "us-east-1a", "us-east-1b"


def an_offering(
    zone: str, kind: str = "on-demand", *, available: bool = True, price: int = 10**9, taken: str = ""
) -> Offering:
    return Offering("m5.large", zone, kind, price, available, taken)


@pytest.mark.parametrize(
    ("sold", "zones", "available"),
    [
        ([an_offering(A)], [A], True),
        ([an_offering(A)], [B], False),  # the class has no subnet there
        ([an_offering(A, available=False)], [A], False),  # the class cannot run the type
        ([an_offering(A, available=False), an_offering(A, "spot")], [A], True),
        ([an_offering(A, available=False), an_offering(B)], [A, B], False),  # other zones say nothing
        ([], [A], True),  # a type that is sold in capacity blocks alone
        ([an_offering(B, available=False)], [A], True),
        (
            [an_offering(A, "reserved", available=False, taken="cr-9")],
            [A],
            True,
        ),  # a full reservation says nothing either
        ([an_offering(A, "reserved", taken="cr-9"), an_offering(A, available=False)], [A], False),
    ],
)
def test_a_place_is_open_where_the_class_can_run_the_type(
    sold: list[Offering], zones: list[str], *, available: bool
) -> None:
    (found,) = added(sold, zones)
    assert found.available is available


def added(sold: list[Offering], zones: list[str], **annotations: str) -> list[Offering]:
    """What a class with one reservation in the first zone adds to a type that is sold like this."""
    status = {
        "subnets": [{"id": f"subnet-{zone}", "zone": zone} for zone in zones],
        "capacityReservations": [{**ENTRY, "interruptible": True}],
    }
    metadata = {"annotations": {labels.RESERVATION_PLACES: '{"cr-1": 3}', **annotations}}
    manifest = a_class_manifest(metadata=metadata, status=status)
    given = msgspec.structs.replace(a_type("m5.large"), offerings=tuple(sold))
    found = with_reservations(Catalogue((given,)), [manifest], {}, NOW)
    (one,) = found.types_for("default")
    assert one.offerings[: len(sold)] == tuple(sold)
    return list(one.offerings[len(sold) :])


def test_a_place_counts_at_the_lowest_price_on_demand() -> None:
    """Spot prices do not matter, and a type without a price on demand has free places."""
    prices = [an_offering(B, price=5 * 10**9), an_offering(A, price=3 * 10**9), an_offering(A, "spot", price=10**9)]
    assert [one.price for one in added(prices, [A])] == [300]
    assert [one.price for one in added([an_offering(A, "spot")], [A])] == [0]
    assert [(one.interruptible, one.reservation_type) for one in added(prices, [A])] == [(True, "default")]


def test_a_reservation_that_a_catalogue_has_is_not_added_again() -> None:
    assert added([an_offering(A, "reserved", taken="cr-1")], [A]) == []
    given = (a_type("m5.xlarge"), a_type("m5.large"))
    status = {"subnets": SUBNETS, "capacityReservations": [ENTRY]}
    found = with_reservations(Catalogue(given), [a_class_manifest(status=status)], {}, NOW).types_for("default")
    assert (found[0] is given[0], found[1] is given[1]) == (True, False)


def test_one_class_without_reservations_or_with_a_fault_hides_no_other() -> None:
    status = {"subnets": SUBNETS, "capacityReservations": [ENTRY]}
    broken = a_class_manifest("broken", status={**status, "amis": 7})
    manifests = [
        a_class_manifest("plain"),
        broken,
        {"status": status, "metadata": None},
        a_class_manifest("last", status=status),
    ]
    found = with_reservations(Catalogue((a_type("m5.large"),)), manifests, {}, NOW)
    assert found.by_node_class.keys() == {"", "last"}


@pytest.mark.parametrize("text", ["", "[]", '{"cr-1": "3"}', '{"cr-1": 1.5}', "{", "null"])
def test_places_that_nobody_can_read_are_unknown(text: str) -> None:
    assert [one.available for one in offerings({}, text)] == [False]
