"""What an EC2NodeClass selects of an account's capacity reservations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from adapters.aws.ec2.instances import Instances
from adapters.aws.node_class import CapacityReservations
from adapters.aws.services import PATIENT, AwsService
from core.catalogue.node_class import read_node_class
from simulator.aws.ec2.instances import BLOCK, Reservation
from tests.builders import a_class_manifest
from tests.fakes.account import START, FakeAccount

OWNER = "123456789012"
ML = {"tags": {"team": "ml"}}


def a_reservation(identity: str, **changes: Any) -> Reservation:
    usual = {"instance_type": "m5.large", "zone": "us-east-1a", "total": 4, "owner": OWNER, "tags": ML["tags"]}
    return Reservation(id=identity, **{**usual, **changes})


def found(terms: list[dict[str, Any]], *reservations: Reservation, alias: str = "al2023@latest") -> dict[str, Any]:
    world = FakeAccount()
    for reservation in reservations:
        world.account.reservations.make(reservation)
    ec2 = AwsService(world.client("ec2", config=PATIENT))
    images = {"amiSelectorTerms": [{"alias": alias}]}
    manifest = a_class_manifest(capacityReservationSelectorTerms=terms, **images)
    finder = CapacityReservations(ec2, Instances(ec2, cluster="shop").in_reservations)
    return {entry["id"]: entry for entry in finder.resolve(read_node_class(manifest), world.clock.now())}


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([ML], {"cr-1", "cr-2"}),
        ([{"tags": {"team": "*"}, "instanceMatchCriteria": "open"}], {"cr-2"}),
        ([{**ML, "ownerID": "999999999999"}], set()),
        ([{"id": "cr-3"}, {"id": "cr-gone"}], {"cr-3"}),
        ([{"id": "cr-3", "tags": {"no": "such"}}], {"cr-3"}),
        ([ML, {"id": "cr-1"}], {"cr-1", "cr-2"}),
        ([{"id": "cr-gone"}], set()),
        ([], set()),
    ],
)
def test_terms_are_read_as_karpenter_reads_them(terms: list[dict[str, Any]], expected: set[str]) -> None:
    account = a_reservation("cr-1"), a_reservation("cr-2", criteria="open"), a_reservation("cr-3", tags={})
    assert set(found(terms, *account)) == expected


def test_every_page_is_read() -> None:
    many = [a_reservation(f"cr-{number:04}") for number in range(1001)]
    assert len(found([ML], *many)) == 1001


def test_what_is_over_is_left_out_and_a_block_near_its_end_expires() -> None:
    ends = {minutes: START + timedelta(minutes=minutes) for minutes in (0, 39, 90)}
    result = found(
        [ML],
        a_reservation("cr-over", ends_at=ends[0]),
        a_reservation("cr-block", kind=BLOCK, ends_at=ends[90]),
        a_reservation("cr-near", kind=BLOCK, ends_at=ends[39]),
        a_reservation("cr-usual", ends_at=ends[39], others=3, interruptible=True),
    )
    assert {name: entry["state"] for name, entry in result.items()} == {
        "cr-block": "active",
        "cr-near": "expiring",
        "cr-usual": "active",
    }
    assert result["cr-usual"] == {
        "id": "cr-usual",
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "ownerID": OWNER,
        "instanceMatchCriteria": "targeted",
        "reservationType": "default",
        "state": "active",
        "endTime": "2026-11-20T00:39:00Z",
        "interruptible": True,
        "places": 1,
    }


def test_what_was_booked_is_found_with_its_start_and_its_size() -> None:
    """Before the start EC2 reports no free place. Whoever waits for the block sees that it is known."""
    starts, ends = START + timedelta(minutes=39), START + timedelta(days=1)
    result = found([ML], a_reservation("cr-later", kind=BLOCK, starts_at=starts, ends_at=ends))
    assert result["cr-later"] == {
        "id": "cr-later",
        "instanceType": "m5.large",
        "availabilityZone": "us-east-1a",
        "ownerID": OWNER,
        "instanceMatchCriteria": "targeted",
        "reservationType": "capacity-block",
        "state": "scheduled",
        "startTime": "2026-11-20T00:39:00Z",
        "endTime": "2026-11-21T00:00:00Z",
        "places": 4,
    }


@pytest.mark.parametrize(
    ("state", "is_found"), [("payment-pending", True), ("payment-failed", False), ("failed", False)]
)
def test_a_booking_that_came_to_nothing_is_left_out(state: str, *, is_found: bool) -> None:
    booked = a_reservation("cr-1", kind=BLOCK, starts_at=START + timedelta(hours=1), booked=state)
    assert (set(found([ML], booked)) == {"cr-1"}) is is_found


def test_a_windows_class_does_not_use_linux_reservations() -> None:
    assert found([ML], a_reservation("cr-1"), alias="windows2022@latest") == {}
