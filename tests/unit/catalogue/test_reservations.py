"""Reservations of a class as offerings of its types."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest

from core import labels
from core.catalogue.discovered.reservation_end import LEAVES_BEFORE, RECLAIMED_BEFORE, SERVES_LEAST
from core.catalogue.discovered.upcoming_reservations import written_upcoming
from core.catalogue.reservations import PRICE_SHARE, with_reservations, written_places
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
