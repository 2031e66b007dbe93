"""When nodes go that a scheduled change ends: spread over time, and before their date."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.lifecycle.records import Deletion
from core.lifecycle.scheduled_changes import BEGINS_BEFORE, DUE_BEFORE, SPREAD, approaching, begins_at, is_due
from core.model.node_claim import Hold
from tests.builders import NOW
from tests.unit.lifecycle.records_for_tests import a_record

HOUR = timedelta(hours=1)
NEAR = NOW + BEGINS_BEFORE - SPREAD
"""A date for which every claim may go now."""


def going(reason: str) -> Deletion:
    return Deletion(reason=reason, asked_at=NOW)


@given(name=st.text(max_size=40), days=st.integers(0, 30))
def test_each_claim_begins_within_the_spread_and_long_before_it_must(name: str, days: int) -> None:
    date = NOW + timedelta(days=days)
    assert date - BEGINS_BEFORE <= begins_at(name, date) < date - BEGINS_BEFORE + SPREAD < date - DUE_BEFORE


def test_claims_of_one_date_start_at_different_times() -> None:
    assert len({begins_at(f"claim-{number}", NOW) for number in range(100)}) == 100


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"retires_at": NEAR}, ("c",)),
        ({"retires_at": NOW + timedelta(days=14)}, ()),
        ({"retires_at": None}, ()),
        ({"retires_at": NOW + DUE_BEFORE}, ()),
        ({"retires_at": NEAR, "deletion": going("Empty")}, ()),
        ({"retires_at": NEAR, "hold": Hold(NOW + HOUR, "DrainBlocked", "")}, ()),
        ({"retires_at": NEAR, "hold": Hold(NOW, "DrainBlocked", "")}, ("c",)),
    ],
)
def test_claims_that_may_go_within_budgets(changes: dict[str, object], expected: tuple[str, ...]) -> None:
    assert approaching((a_record(**changes),), (), NOW) == expected


def test_the_window_begins_with_its_first_moment_and_ends_before_its_last() -> None:
    record, tick = a_record(retires_at=NEAR), timedelta(microseconds=1)
    first = begins_at("c", NEAR)
    found = [
        bool(approaching((record,), (), at))
        for at in (first - tick, first, NEAR - DUE_BEFORE - tick, NEAR - DUE_BEFORE)
    ]
    assert found == [False, True, True, False]
    assert [is_due(record, at) for at in (NEAR - DUE_BEFORE - tick, NEAR - DUE_BEFORE)] == [False, True]


def test_a_claim_of_a_command_goes_with_the_command() -> None:
    assert approaching((a_record(retires_at=NEAR),), ("c",), NOW) == ()


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"retires_at": NOW + DUE_BEFORE}, True),
        ({"retires_at": NOW - HOUR}, True),
        ({"retires_at": NOW + DUE_BEFORE + timedelta(seconds=1)}, False),
        ({"retires_at": None}, False),
        ({"retires_at": NOW, "deletion": going("ScheduledChange")}, True),
        ({"retires_at": NOW, "deletion": going("SpotInterrupted")}, False),
    ],
)
def test_claims_that_must_go(changes: dict[str, object], expected: bool) -> None:
    """This includes voluntary disruptions: brakes stop those, and pods may block them."""
    assert is_due(a_record(**changes), NOW) == expected
