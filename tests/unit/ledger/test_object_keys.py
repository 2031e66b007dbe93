"""Keys of the ledger's objects hold time, function and id, in order of time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.ledger.object_keys import base_key, days, decision_key, outcome_key, pointer_key, read_decision_key

MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - Hypothesis takes naive bounds
NOW = datetime(2026, 11, 22, 5, 31, tzinfo=UTC)


@given(at=MOMENTS)
def test_a_key_round_trips(at: datetime) -> None:
    found = read_decision_key(decision_key("prod-1", at, "disrupt", "7f3a9c01de"))
    assert found is not None
    assert (found.at, found.function, found.id) == (at, "disrupt", "7f3a9c01de")


@given(first=MOMENTS, second=MOMENTS)
def test_keys_sort_by_time(first: datetime, second: datetime) -> None:
    """Otherwise, a listing must be read completely to find the last day."""
    names = [decision_key("c", at, "provision", "0") for at in (first, second)]
    assert (names[0] < names[1]) == (first < second)


@pytest.mark.parametrize(
    "key", ["decisions/c/of-disrupt", "bases/c/0f", "outcomes/c/2026/11/22/x-y-z", "decisions/a/b/c/d/e"]
)
def test_other_objects_are_not_decisions(key: str) -> None:
    assert read_decision_key(key) is None


def test_days_cover_the_span() -> None:
    assert [day.day for day in days(NOW - timedelta(days=2), NOW)] == [20, 21, 22]
    assert [day.day for day in days(NOW, NOW)] == [22]
    midnight = NOW.replace(hour=0, minute=0)
    assert [day.day for day in days(NOW - timedelta(days=1), midnight)] == [21, 22]


@pytest.mark.parametrize(
    ("since", "until", "count"),
    [
        (datetime(2026, 11, 22, tzinfo=UTC), datetime(2026, 11, 22, tzinfo=UTC), 1),
        (datetime(2026, 11, 22, tzinfo=UTC), datetime(2026, 11, 24, tzinfo=UTC), 3),
        (datetime(2026, 11, 22, 23, 59, 59, 999999, tzinfo=UTC), datetime(2026, 11, 23, tzinfo=UTC), 2),
        (datetime(2026, 11, 22, 12, tzinfo=UTC), datetime(2026, 11, 23, 11, tzinfo=UTC), 2),
    ],
)
def test_the_day_that_begins_with_the_last_moment_is_one_of_them(since: datetime, until: datetime, count: int) -> None:
    found = days(since, until)
    assert len(found) == count
    assert [(day.date(), day.time()) for day in found] == [
        (since.date() + timedelta(days=number), datetime.min.time()) for number in range(count)
    ]


def test_keys_are_what_releases_have_written() -> None:
    """An object under another key is lost to the reader, and to the rules that delete old ones."""
    assert decision_key("prod", NOW, "disrupt", "7f3a9c01de") == (
        "decisions/prod/2026/11/22/053100.000000Z-disrupt-7f3a9c01de"
    )
    assert outcome_key("prod", NOW, "execute", "0f") == "outcomes/prod/2026/11/22/053100.000000Z-execute-0f"
    assert base_key("prod", "0f") == "bases/prod/0f"
    assert pointer_key("prod", "disrupt") == "bases/prod/of-disrupt"
    found = read_decision_key(decision_key("prod", NOW, "disrupt", "7f3a9c01de"))
    assert found is not None
    assert found.cluster == "prod"


@pytest.mark.parametrize(
    "key",
    [
        "outcomes/c/2026/11/22/053100.000000Z-disrupt-0f",
        "decisions/c/2026/11/22/053100.000000Z-disrupt-0f/more",
        "decisions/c/2026/11/22",
        "",
    ],
)
def test_a_key_is_a_decisions_by_folder_and_depth(key: str) -> None:
    """Outcomes are stored under keys of the same form."""
    assert read_decision_key(key) is None
