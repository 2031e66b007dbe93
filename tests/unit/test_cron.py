"""Cron schedules of budget windows, as the Go library of Kubernetes reads them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from core.cron import Schedule
from core.disruption.budgets import is_active
from core.errors import InvalidInputError
from core.model.node_pool import Budget

NOW = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)  # a Monday


@pytest.mark.parametrize(
    ("text", "after", "expected"),
    [
        ("@daily", "2026-03-02T12:00", "2026-03-03T00:00"),
        ("@midnight", "2026-03-02T12:00", "2026-03-03T00:00"),
        ("@hourly", "2026-03-02T12:00", "2026-03-02T13:00"),
        ("@weekly", "2026-03-02T12:00", "2026-03-08T00:00"),
        ("@monthly", "2026-03-02T12:00", "2026-04-01T00:00"),
        ("@yearly", "2026-03-02T12:00", "2027-01-01T00:00"),
        ("@annually", "2026-03-02T12:00", "2027-01-01T00:00"),
        ("*/15 9-17 * * MON-FRI", "2026-03-02T17:45", "2026-03-03T09:00"),
        ("5/15 * * * *", "2026-03-02T12:36", "2026-03-02T12:50"),
        ("0 8 ? * sun", "2026-03-02T12:00", "2026-03-08T08:00"),
        ("0 0 1 jan,Jul *", "2026-03-02T12:00", "2026-07-01T00:00"),
        ("30 6 * * 0", "2026-03-02T12:00", "2026-03-08T06:30"),
        ("0 0 29 2 *", "2026-03-02T12:00", "2028-02-29T00:00"),
        ("1, * * * *", "2026-03-02T12:00", "2026-03-02T12:01"),
        ("0 +13 * * *", "2026-03-02T12:00", "2026-03-02T13:00"),
        ("0 *-5 * * *", "2026-03-02T12:00", "2026-03-02T13:00"),
    ],
)
def test_next_start(text: str, after: str, expected: str) -> None:
    """Each form of schedule fires when Kubernetes users expect it."""
    moment = datetime.fromisoformat(after).replace(tzinfo=UTC)
    assert Schedule.parse(text).next_after(moment) == datetime.fromisoformat(expected).replace(tzinfo=UTC)


def test_two_day_fields_mean_either() -> None:
    """`1 * 1`: the first of the month or a Monday; a star in one leaves the other alone."""
    either = Schedule.parse("0 0 1 * 1")
    assert either.next_after(datetime(2026, 3, 24, tzinfo=UTC)) == datetime(2026, 3, 30, tzinfo=UTC)
    assert either.next_after(datetime(2026, 3, 30, tzinfo=UTC)) == datetime(2026, 4, 1, tzinfo=UTC)


def test_star_with_step_is_a_list() -> None:
    """`*/2` restricts the day field, so with a weekday either may match (the Go library); `*/1` does not."""
    stepped, plain = Schedule.parse("0 0 */2 * 1"), Schedule.parse("0 0 */1 * 1")
    assert stepped.next_after(datetime(2026, 3, 2, tzinfo=UTC)) == datetime(2026, 3, 3, tzinfo=UTC)
    assert plain.next_after(datetime(2026, 3, 2, tzinfo=UTC)) == datetime(2026, 3, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "", "* * * *", "0 * * * * *", "@every 1h", "@reboot", "TZ=UTC 0 * * * *", "CRON_TZ=UTC 0 0 * * *", "60 * * * *",
        "0 24 * * *", "0 0 0 * *", "0 0 32 * *", "0 0 1-32 * *",
        "0 0 * 13 *", "0 0 * * 7", "0 0 * * 8", "0 0 L * *", "0 0 * * 5L", "0 0 * * 5#2",
        "0 0 15W * *", "0 22-2 * * *", "*/0 * * * *", "0 0 30 2 *", "a b c d e", "1-2-3 * * * *", "-1 * * * *", ", * * * *",
        "++1 * * * *", "1/2/3 * * * *",
    ],
)  # fmt: skip
def test_refused(text: str) -> None:
    """A schedule that NodePools refuse is refused here: its pool must stay closed."""
    with pytest.raises(InvalidInputError):
        Schedule.parse(text)


@pytest.mark.parametrize(
    ("offset", "active"),
    [
        (timedelta(0), True),
        (timedelta(microseconds=-1), False),
        (timedelta(minutes=59, seconds=59), True),
        (timedelta(hours=1), False),
    ],
)
def test_window_holds_its_start_and_not_its_end(offset: timedelta, active: bool) -> None:
    """An hour from noon: active at noon, not at one."""
    budget = Budget("0", schedule="0 12 * * *", duration=timedelta(hours=1))
    assert is_active(budget, NOW + offset) is active


def test_overlapping_windows_merge() -> None:
    """A window longer than its period never closes."""
    budget = Budget("0", schedule="@hourly", duration=timedelta(hours=2))
    assert all(is_active(budget, NOW + timedelta(minutes=minute)) for minute in range(0, 180, 7))


def test_schedule_and_duration_belong_together() -> None:
    """A schedule without a duration, or the reverse, is a fault."""
    with pytest.raises(InvalidInputError):
        is_active(Budget("1", schedule="@daily"), NOW)
    with pytest.raises(InvalidInputError):
        is_active(Budget("1", duration=timedelta(hours=1)), NOW)


def test_digits_of_other_scripts_are_no_numbers() -> None:
    """Go reads ASCII digits only."""
    with pytest.raises(InvalidInputError, match="is not a number"):
        Schedule.parse("\N{ARABIC-INDIC DIGIT THREE} * * * *")


def test_a_schedule_that_never_occurs_can_be_read() -> None:
    """A CronJob may have one, a budget may not."""
    assert Schedule.read("0 0 31 2 *").days == (31,)
    with pytest.raises(InvalidInputError, match="never occurs"):
        Schedule.parse("0 0 31 2 *")
