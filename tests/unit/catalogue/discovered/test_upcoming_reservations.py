"""Reservations that have not begun: kept in an annotation, which anybody may write, and open from their start."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from core import labels
from core.catalogue.discovered.upcoming_reservations import (
    begins_at,
    has_begun,
    read_upcoming,
    upcoming_message,
    upcoming_of,
    written_upcoming,
)
from core.catalogue.node_class import CapacityReservation, EC2NodeClass, read_node_class
from tests.builders import NOW, a_class_manifest

SECOND = timedelta(seconds=1)


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
