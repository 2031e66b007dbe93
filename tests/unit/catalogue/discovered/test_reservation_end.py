"""When nodes leave a reservation, and until when it takes new ones."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from core.catalogue.discovered.reservation_end import (
    SERVES_LEAST,
    ends_at,
    leaves_at,
    reclaimed_before,
    takes_instances,
)
from core.catalogue.node_class import CAPACITY_BLOCK, DEFAULT_RESERVATION, CapacityReservation
from tests.builders import NOW

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
