"""Schedules that wake `disrupt` when budget windows open and close."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from core.cron import Schedule
from core.disruption.budget_windows import window_schedules
from core.model.node_pool import Budget, Disruption, NodePool
from tests.builders import a_pool

NOW = datetime(2026, 3, 2, 12, 30, tzinfo=UTC)  # a Monday


def pool(schedule: str, duration: timedelta, name: str = "default") -> NodePool:
    """A pool with one window."""
    return a_pool(name, disruption=Disruption(budgets=(Budget("0", schedule=schedule, duration=duration),)))


def expressions(schedule: str, **duration: float) -> list[str]:
    """The expressions of one window."""
    return sorted(window_schedules([pool(schedule, timedelta(**duration))], NOW).values())


@pytest.mark.parametrize(
    ("schedule", "hours", "expected"),
    [
        ("0 9 * * *", 8, ["cron(0 17 * * ? *)", "cron(0 9 * * ? *)"]),
        ("@hourly", 1, ["cron(0 * * * ? *)"]),
        ("0 22 * * *", 4, ["cron(0 2 * * ? *)", "cron(0 22 * * ? *)"]),
        ("0 22 * * MON-FRI", 4, ["cron(0 2 ? * TUE,WED,THU,FRI,SAT *)", "cron(0 22 ? * MON,TUE,WED,THU,FRI *)"]),
        ("0 22 * * sat", 4, ["cron(0 2 ? * SUN *)", "cron(0 22 ? * SAT *)"]),
        ("0 9 1 * *", 8, ["cron(0 17 1 * ? *)", "cron(0 9 1 * ? *)"]),
        ("0 9 1 * 1", 1, ["cron(0 10 1 * ? *)", "cron(0 10 ? * MON *)", "cron(0 9 1 * ? *)", "cron(0 9 ? * MON *)"]),
        ("30 6 * * 0", 0.5, ["cron(0 7 ? * SUN *)", "cron(30 6 ? * SUN *)"]),
        ("0 20,23 * * *", 2, ["cron(0 1,22 * * ? *)", "cron(0 20,23 * * ? *)"]),
        ("0 1,2,3,7 * * *", 0.5, ["cron(0 1-3,7 * * ? *)", "cron(30 1-3,7 * * ? *)"]),
        ("0 12 * * *", 72, ["cron(0 12 * * ? *)"]),
    ],
)
def test_opening_and_closing(schedule: str, hours: float, expected: list[str]) -> None:
    """The end recurs like the start, later by the duration, also past midnight and the end of the week."""
    assert expressions(schedule, hours=hours) == expected


@pytest.mark.parametrize(
    ("schedule", "end", "start"),
    [
        ("0 22 1 * *", "at(2026-04-02T02:00:00)", "cron(0 22 1 * ? *)"),
        ("0 22 * 3 *", "at(2026-03-03T02:00:00)", "cron(0 22 * 3 ? *)"),
        ("0 22 * 3 MON", "at(2026-03-03T02:00:00)", "cron(0 22 ? 3 MON *)"),
    ],
    ids=["a date", "a month", "a weekday of a month"],
)
def test_an_end_that_cron_cannot_express_is_a_single_time(schedule: str, end: str, start: str) -> None:
    """From 22:00 for four hours: the last window of March ends in April, on a day that no field can name with the others."""
    assert expressions(schedule, hours=4) == [end, start]


def test_a_start_at_the_end_of_a_window_prolongs_it() -> None:
    """From 20 to 23 and from 23 to 2: nothing opens or closes at 23."""
    assert expressions("0 20,23 1 * *", hours=3) == ["at(2026-04-02T02:00:00)", "cron(0 20,23 1 * ? *)"]


def test_end_of_a_window_that_is_open_now() -> None:
    """Inside a window, the next end is that window's."""
    assert "at(2026-03-03T20:00:00)" in expressions("0 20 1 * *", hours=48)


def test_an_end_that_later_starts_put_off_is_the_last_one() -> None:
    """Minutes 20 to 37 of each hour of a date, an hour each: one window, which ends at 00:37 of the next day."""
    inside = datetime(2026, 3, 2, 23, 59, tzinfo=UTC)
    found = window_schedules([pool("20-37 * 2 * *", timedelta(hours=1))], inside).values()
    assert [one for one in found if one.startswith("at")] == ["at(2026-03-03T00:37:00)"]


def test_hourly_on_one_weekday_spills_over() -> None:
    """Every hour of Monday, two hours each: the last one ends on Tuesday."""
    found = expressions("0 * * * 1", hours=2)
    assert "cron(0 0,1 ? * TUE *)" in found


def test_same_window_of_two_pools_is_one_schedule() -> None:
    """Two wake-ups for one moment would cost twice."""
    pools = [pool("@daily", timedelta(hours=1), name) for name in ("a", "b")]
    assert window_schedules(pools, NOW) == window_schedules(pools[:1], NOW)


def test_names_are_short_and_follow_from_the_expression() -> None:
    """EventBridge takes 64 characters; an unchanged window keeps its name, so its schedule is not replaced."""
    first = window_schedules([pool("*/7 1-5 * * *", timedelta(minutes=3))], NOW)
    assert all(len(name) <= 64 for name in first)
    assert first == window_schedules([pool("*/7 1-5 * * *", timedelta(minutes=3))], NOW + timedelta(days=2))


def test_unreadable_budgets_and_budgets_without_window_have_none() -> None:
    """They neither open nor close, and keep no other window from doing so."""
    assert not window_schedules([pool("nonsense", timedelta(hours=1)), a_pool()], NOW)
    hour = timedelta(hours=1)
    odd = Budget("10%"), Budget("0", schedule="nonsense", duration=hour)
    daily = Budget("0", schedule="@daily", duration=hour)
    both = a_pool(disruption=Disruption(budgets=(*odd, daily)))
    assert window_schedules([both], NOW) == window_schedules([pool("@daily", hour)], NOW) != {}


@pytest.mark.parametrize("schedule", ["1-59 0-22 * 1-11 1-5", "0-58 1-23 1-30 1-11 *", "*/2 */2 */2 */2 *"])
def test_expressions_are_valid_for_eventbridge(schedule: str) -> None:
    """One refused schedule would keep the schedules of all other NodePools from being created."""
    found = expressions(schedule, minutes=1) + expressions(schedule, hours=7, minutes=13)
    assert max(map(len, found)) <= 256


def moments(expression: str, first_day: datetime, days: int) -> set[datetime]:
    """The minutes of some days that an expression of EventBridge names, read as its manual says."""
    minutes, hours, dates, months, weekdays, years = expression.removeprefix("cron(").removesuffix(")").split()
    assert (dates == "?", weekdays == "?", years) in ((True, False, "*"), (False, True, "*"))
    names = ("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN")

    def named(field: str, value: int) -> bool:
        spans = (part.partition("-") for part in field.split(","))
        return field in "*?" or any(int(low) <= value <= int(high or low) for low, _, high in spans)

    return {
        first_day + timedelta(days=day, hours=hour, minutes=minute)
        for day in range(days)
        if (today := first_day + timedelta(days=day))
        and (weekdays == "?" or names[today.weekday()] in weekdays.split(","))
        if named(dates, today.day) and named(months, today.month)
        for hour in range(24)
        if named(hours, hour)
        for minute in range(60)
        if named(minutes, minute)
    }


@pytest.mark.parametrize("duration", [timedelta(minutes=30), timedelta(hours=2), timedelta(hours=25, minutes=1)])
@pytest.mark.parametrize(
    "schedule",
    ["* * * * *", "* 9 * * *", "15 * * * *", "0 23 * * *", "50 23 * * SUN", "*/25 22,23 * * SAT,SUN", "5 0 * * 1-3"],
)
def test_expressions_name_each_start_of_two_weeks_and_each_start_put_off_by_the_duration(
    schedule: str, duration: timedelta
) -> None:
    """Nothing wakes `disrupt` for a moment that is missing, and one too many wakes it for nothing."""
    first, days = datetime(2026, 3, 2, tzinfo=UTC), 14
    parsed, starts = Schedule.parse(schedule), set[datetime]()
    start = parsed.next_after(first - timedelta(days=3))
    while start is not None and start < first + timedelta(days=days):
        starts.add(start)
        start = parsed.next_after(start)
    wanted = {moment for moment in starts | {start + duration for start in starts} if moment >= first}
    found = set[datetime]().union(*(moments(one, first, days) for one in expressions_of(schedule, duration)))
    assert found == {moment for moment in wanted if moment < first + timedelta(days=days)}


def expressions_of(schedule: str, duration: timedelta) -> list[str]:
    return list(window_schedules([pool(schedule, duration)], NOW).values())


@pytest.mark.parametrize("half", [Budget("0", schedule="@daily"), Budget("0", duration=timedelta(hours=1))])
def test_a_budget_with_half_a_window_has_none(half: Budget) -> None:
    """The API server refuses it; what was written before it did must not end the pass for all NodePools."""
    assert not window_schedules([a_pool(disruption=Disruption(budgets=(half,)))], NOW)
