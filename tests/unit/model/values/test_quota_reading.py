"""Quotas as last read."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest

from core.model.values.quota_reading import LIMITS_FRESH_FOR, USED_FRESH_FOR, QuotaReading
from tests.builders import NOW

READING = QuotaReading(
    limits={"L-1216C47A": 100, "L-34B43A08": 64},
    used={"": {"L-1216C47A": 30}, "other": {"L-1216C47A": 10, "L-34B43A08": 80}, "ours": {"L-1216C47A": 50}},
    limits_read_at=NOW,
    used_read_at=NOW,
)


def test_a_cluster_may_run_what_others_do_not() -> None:
    """Its own nodes are counted from its own claims, which are newer."""
    assert READING.left_to("ours", NOW) == {"L-1216C47A": 60, "L-34B43A08": 0}
    assert READING.left_to("new", NOW) == {"L-1216C47A": 10, "L-34B43A08": 0}


def test_an_old_reading_says_nothing() -> None:
    """EC2 applies its quotas itself; a plan under outdated ones could hold back pods for nothing."""
    assert READING.left_to("ours", NOW + USED_FRESH_FOR)
    assert READING.left_to("ours", NOW + USED_FRESH_FOR + timedelta(seconds=1)) == {}


def test_limits_that_could_not_be_read_for_hours_bound_nothing() -> None:
    """A permission was taken away, the quota was raised since, and instances are still counted."""
    later = NOW + LIMITS_FRESH_FOR
    counted = msgspec.structs.replace(READING, used_read_at=later)
    assert counted.left_to("ours", later)
    assert counted.left_to("ours", later + timedelta(seconds=1)) == {}


def test_a_quota_is_short_from_nine_tenths_on() -> None:
    """What others run counts, too; a quota of zero was never wanted."""
    assert READING.is_short("L-1216C47A")
    assert READING.is_short("L-34B43A08")
    fewer = msgspec.structs.replace(READING, limits={"L-1216C47A": 101, "L-34B43A08": 0})
    assert not any(fewer.is_short(code) for code in (*fewer.limits, "L-unknown"))


def test_instances_of_others_are_not_ours() -> None:
    """Spot prices are read every five minutes for our own instances only."""
    assert READING.has_own_instances
    assert not msgspec.structs.replace(READING, used={"": {"L-1216C47A": 30}, "ours": {}}).has_own_instances


@pytest.mark.parametrize(
    ("used", "has_own"),
    [
        ({}, False),
        ({"": {"L-1": 5}}, False),
        ({"a": {}}, False),
        ({"a": {}, "b": {"L-1": 5}}, True),
        ({"": {"L-1": 5}, "a": {"L-1": 5}}, True),
    ],
)
def test_instances_of_any_cluster_are_our_own(used: dict[str, dict[str, int]], *, has_own: bool) -> None:
    """Those of others have no cluster."""
    reading = QuotaReading(limits={}, used=used, limits_read_at=NOW, used_read_at=NOW)
    assert reading.has_own_instances is has_own
