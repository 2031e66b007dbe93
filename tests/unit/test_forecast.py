"""Ramps that recur are found in the pods of a recorded period, and room that would not be used is told as such."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.calendars import at as calendar_at
from core.calendars import hours_of, instant, wall_time, zone
from core.forecast import (
    Forecast,
    ForecastRules,
    GrowthHistory,
    PodLife,
    PodLives,
    Ramp,
    calendars_of,
    capped,
    clock_text,
    days_text,
    due,
    extended,
    forecast_from,
    growths,
    is_stopped,
    pays,
    ramps,
    room_price,
)
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

BERLIN = "Europe/Berlin"
RULES = ForecastRules(time_zone=BERLIN)
SINCE = datetime(2026, 10, 4, 22, tzinfo=UTC)
"""Midnight in Berlin before Monday, 5 October 2026; summer time ends on the 25th."""

WEEKS = 4
GIB = 1 << 30


def a_life(created_at: datetime, minutes: float | None = None, **changes: Any) -> PodLife:
    life = PodLife(
        pool="base",
        created_at=created_at,
        gone_at=None if minutes is None else created_at + timedelta(minutes=minutes),
        requests={"pods": 1, "cpu": 1000, "memory": 2 * GIB},
        waited=timedelta(seconds=60),
    )
    return msgspec.structs.replace(life, **changes)


def at(day: int, hour: float) -> datetime:
    """Return an hour of Berlin's clocks on a day of the period."""
    first = datetime(2026, 10, 5, tzinfo=UTC) + timedelta(days=day, hours=hour)
    return instant(first, zone(BERLIN))


def weekday_ramps(pods: int = 10, hour: float = 9.05, **changes: Any) -> Iterator[PodLife]:
    """Yield pods that come on every weekday of the period and stay for eight hours."""
    for day in range(7 * WEEKS):
        if day % 7 < 5:
            yield from (a_life(at(day, hour), 480, **changes) for _ in range(pods))


def found(
    lives: Iterator[PodLife] | list[PodLife], rules: ForecastRules = RULES, weeks: int = WEEKS
) -> tuple[Ramp, ...]:
    return ramps(list(lives), SINCE, at(7 * weeks, 0), rules)


def test_a_ramp_of_weekdays_is_found_on_the_wall_clock_across_the_end_of_summer_time() -> None:
    (ramp,) = found(weekday_ramps())
    assert (ramp.pool, ramp.weekdays, clock_text(ramp.starts)) == ("base", (0, 1, 2, 3, 4), "09:00")
    assert (ramp.pods, ramp.requests, ramp.days) == (10, {"cpu": 1000, "memory": 2 * GIB}, 20)
    assert (ramp.used_percent, ramp.covered_percent, ramp.waited) == (100, 100, timedelta(seconds=60))
    assert pays(ramp, RULES)
    assert days_text(ramp.weekdays) == "Mon-Fri"


def test_too_few_weeks_are_no_evidence() -> None:
    assert found(weekday_ramps(), weeks=2) == ()
    (ramp,) = found(weekday_ramps(), weeks=3)
    assert ramp.days == 15


def test_pods_that_replace_others_are_no_growth() -> None:
    lives = [a_life(SINCE - timedelta(days=1), 60 * 24 * 60)]
    for day in range(7 * WEEKS):
        lives += [a_life(at(day, 0), 60 * 9, gone_at=at(day, 9.05)), a_life(at(day, 9.05), gone_at=at(day + 1, 0))]
    assert all(clock_text(ramp.starts) != "09:00" for ramp in found(lives))


def test_a_ramp_that_comes_once_in_a_while_is_none() -> None:
    assert found([a_life(at(day, 9.05), 60) for day in (0, 9, 17)]) == ()


def test_a_holiday_is_no_evidence() -> None:
    lives = [life for life in weekday_ramps() if life.created_at.date() != date(2026, 10, 14)]
    (with_it,), rules = found(lives), msgspec.structs.replace(RULES, except_dates=("2026-10-14",))
    (without,) = found(lives, rules)
    assert (with_it.days, with_it.used_percent) == (20, 95)
    assert (without.days, without.used_percent) == (19, 100)


def test_room_that_is_hardly_used_does_not_pay() -> None:
    lives = [a_life(at(day, 9.05), 60) for day in range(28) for _ in range(30 if day % 7 == 0 and day < 7 else 1)]
    ramp = next(ramp for ramp in found(lives, msgspec.structs.replace(RULES, percentile=100)) if 0 in ramp.weekdays)
    assert ramp.pods == 30
    assert not pays(ramp, RULES)


def test_the_room_is_for_pods_of_the_mean_size() -> None:
    small = weekday_ramps(pods=8, requests={"pods": 1, "cpu": 250, "memory": GIB})
    (ramp,) = found([*small, *weekday_ramps(pods=1, requests={"pods": 1, "cpu": 2000, "memory": GIB})])
    assert (ramp.pods, ramp.requests) == (9, {"cpu": 450, "memory": GIB})


def test_the_room_is_reduced_to_what_it_may_cost() -> None:
    (ramp,) = found(weekday_ramps())
    rules = msgspec.structs.replace(RULES, nanodollars_per_hour=500)
    reduced = capped(ramp, 1200, rules)
    assert (reduced.pods, reduced.is_capped) == (4, True)
    assert reduced.hourly <= 500
    assert capped(ramp, 400, rules).pods == ramp.pods
    assert not pays(capped(ramp, 100_000, rules), rules), "no room is left"


def test_a_pod_is_followed_from_its_creation_to_the_snapshot_without_it() -> None:
    _, node = a_node_of(a_type(), "n1", pool="base")
    pod = a_pod("a", node_name="n1", created_at=SINCE, started_at=SINCE + timedelta(seconds=70))
    other = a_pod("b", created_at=SINCE)
    lives = PodLives()
    later = SINCE + timedelta(minutes=5)
    for now, pods in ((SINCE + timedelta(minutes=2), (pod, other)), (later, (other,))):
        lives.see(a_snapshot(now=now, nodes=(node,), pods=pods))
    (life,) = lives.lives
    assert (life.pool, life.created_at, life.gone_at, life.waited) == ("base", SINCE, later, timedelta(seconds=70))


def test_the_price_is_that_of_new_nodes_for_the_room() -> None:
    (ramp,) = found(weekday_ramps(pods=3))
    snapshot = a_snapshot(node_pools=(a_pool("base"),), types=(a_type("m.large", cpu="4", memory="16Gi"),))
    assert room_price(snapshot, ramp)
    assert room_price(msgspec.structs.replace(snapshot, node_pools=()), ramp) is None


@pytest.mark.parametrize(("weekdays", "text"), [((0,), "Mon"), ((1, 3), "Tue, Thu"), ((4, 5, 6), "Fri-Sun")])
def test_days_are_told_as_people_do(weekdays: tuple[int, ...], text: str) -> None:
    assert days_text(weekdays) == text


@given(
    st.lists(
        st.tuples(st.integers(0, 27), st.integers(0, 1439), st.integers(1, 600), st.sampled_from([250, 1000, 4000])),
        max_size=60,
    )
)
def test_room_never_exceeds_the_most_that_came_on_one_day(drawn: list[tuple[int, int, int, int]]) -> None:
    lives = [
        a_life(at(day, minute / 60), stay, requests={"pods": 1, "cpu": cpu, "memory": 0})
        for day, minute, stay, cpu in drawn
    ]
    for ramp in found(lives):
        of_slot = [life for life in lives if _slot(life.created_at) == ramp.starts]
        of_days = Counter(wall_time(life.created_at, zone(BERLIN)).date() for life in of_slot)
        assert 1 <= ramp.pods <= max(of_days.values())
        assert ramp.requests["cpu"] * (ramp.pods - 1) <= max(
            sum(life.requests["cpu"] for life in of_slot if wall_time(life.created_at, zone(BERLIN)).date() == day)
            for day in of_days
        )
        assert 0 <= ramp.used_percent <= 100
        assert 0 <= ramp.covered_percent <= 100


def _slot(moment: datetime) -> timedelta:
    wall = wall_time(moment, zone(BERLIN))
    return timedelta(minutes=(wall.hour * 60 + wall.minute) // 5 * 5)


# The forecast that keeps room by itself.


def a_ramp(pool: str = "base", starts: timedelta = timedelta(hours=9), **changes: Any) -> Ramp:
    ramp = Ramp(
        pool=pool,
        weekdays=(0, 1, 2, 3, 4),
        starts=starts,
        pods=10,
        requests={"cpu": 1000, "memory": GIB},
        days=20,
        used_percent=90,
        covered_percent=90,
        waited=timedelta(seconds=60),
    )
    return msgspec.structs.replace(ramp, **changes)


def test_the_last_days_are_forecast_from_those_before_alone() -> None:
    lives = [life for life in weekday_ramps() if life.created_at < at(7 * WEEKS - 5, 0)]
    (ramp,) = found(lives)
    assert [(use.room, use.came) for use in ramp.recent] == [(10, 10), (10, 10), (10, 0), (10, 0), (10, 0)]
    assert (ramp.recent_percent, ramp.used_percent) == (40, 85)
    assert pays(ramp, RULES)
    assert is_stopped(ramp, RULES)
    (still,) = found([*lives, *(a_life(at(7 * WEEKS - 4, 9.05), 60) for _ in range(10))])
    assert not is_stopped(still, RULES), "one missing day is a holiday"


def test_the_room_of_all_node_pools_together_stays_within_the_amount() -> None:
    types = (a_type("m.large", cpu="4", memory="16Gi"),)
    snapshot = a_snapshot(node_pools=(a_pool("a"), a_pool("b")), types=types)
    history = GrowthHistory(time_zone=BERLIN, since=SINCE, read_until=SINCE)
    lives = [*weekday_ramps(pool="a"), *weekday_ramps(pool="b"), *weekday_ramps(pool="b", hour=15)]
    history = extended(history, lives, at(7 * WEEKS, 0), RULES)
    whole = forecast_from(history, snapshot, RULES)
    price = whole.ramps[0].hourly
    assert {(ramp.pool, ramp.pods, ramp.hourly) for ramp in whole.ramps} == {("a", 10, price), ("b", 10, price)}
    rules = msgspec.structs.replace(RULES, nanodollars_per_hour=price + price // 2)
    one, beside, later = forecast_from(history, snapshot, rules).ramps
    assert (one.pods, beside.pods, later.pods) == (10, 5, 10), "an afternoon has the whole amount again"
    assert one.hourly + beside.hourly <= price + price // 2


def test_the_history_of_hours_is_that_of_the_whole_period() -> None:
    lives = sorted([*weekday_ramps(), *weekday_ramps(pods=3, hour=14.99)], key=lambda life: life.created_at)
    history = GrowthHistory(time_zone=BERLIN, since=SINCE, read_until=SINCE)
    end = at(7 * WEEKS, 0)
    while history.read_until < end:
        until = min(end, history.read_until + timedelta(hours=1))
        near = [
            life
            for life in lives
            if life.created_at < until and (life.gone_at is None or life.gone_at > history.read_until)
        ]
        history = extended(history, near, until, RULES)
    assert history.days == growths(lives, RULES)


def test_a_forecast_is_a_calendar_that_sorts_before_written_ones() -> None:
    forecast = Forecast(at=at(28, 0), rules=RULES, ramps=(a_ramp(), a_ramp("other", used_percent=10)))
    (calendar,) = calendars_of(forecast)
    assert calendar.name < "0"
    moment = at(28, 8 + 58 / 60)
    hours = calendar_at(a_pool("base"), (calendar,), moment).hours
    assert hours is not None
    assert hours.warm is not None
    assert (hours.warm.pods, hours.rules) == (10, ())
    assert "by forecast: Mon-Fri 09:00 to 09:05: p90 of 20 days is 10 pods" in " ".join(
        hours_of(calendar_at(a_pool("base"), (calendar,), moment))
    )
    assert due(forecast, moment) == (forecast.ramps[0],)
    assert due(forecast, at(28, 8.9)) == ()
    late = at(28 + 7, 9)
    unheld = calendar_at(a_pool("base"), (calendar,), late).hours
    assert unheld is None or unheld.warm is None, "a forecast that is not computed again ends"
