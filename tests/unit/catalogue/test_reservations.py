"""Reservations of a class as offerings of its types."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from core import labels
from core.catalogue.discovered.reservation_end import LEAVES_BEFORE, RECLAIMED_BEFORE, SERVES_LEAST
from core.catalogue.discovered.upcoming_reservations import written_upcoming
from core.catalogue.reservations import PRICE_SHARE, paid_for, selects_reservations, with_reservations, written_places
from core.model.catalogue import Catalogue, Offering
from tests.builders import NOW, a_class_manifest, a_type

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
