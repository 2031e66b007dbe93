"""Ramps that recur are found in the pods of a recorded period, and room that would not be used is told as such."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapters.ledger import LedgerWriter, RecordedSnapshots, SearchBound
from adapters.ports import TransientError
from adapters.run_report import RunReport
from core.calendars import at as calendar_at
from core.calendars import hours_of, instant, wall_time, zone
from core.disruption.budgets import UNNAMED, allowed
from core.forecast import (
    LONGEST,
    SLOTS_MAX,
    SPARE_PLACES,
    Forecast,
    ForecastRules,
    GrowthHistory,
    Ramp,
    RoomBalance,
    RoomUse,
    balance,
    balance_sentence,
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
    priced,
    ramps,
    recurring,
)
from core.ledger.entry import PROVISION, DecisionSummary, LedgerPart
from core.ledger.reading import DECISIONS
from core.model.node_pool import Budget, Disruption
from core.model.plan import Plan
from core.model.pod import Pod
from core.pods import Fall, PodLife, PodLives, SlotGrowth, recurring_falls
from lambdas.controllers.forecast import ForecastRuns
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type
from tests.fakes.lab import SETTINGS
from tests.fakes.store import Rows
from tests.fakes.world import FakeClock, MemoryObjects

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


def test_each_place_of_the_room_takes_the_largest_pod() -> None:
    small = weekday_ramps(pods=8, requests={"pods": 1, "cpu": 250, "memory": GIB})
    (ramp,) = found([*small, *weekday_ramps(pods=1, requests={"pods": 1, "cpu": 2000, "memory": GIB})])
    assert (ramp.pods, ramp.amounts) == (9, {"cpu": 4000, "memory": 9 * GIB})
    assert (ramp.places, ramp.requests) == (3, {"cpu": 2000, "memory": 9 * GIB // 2}), "one more than in sum"
    (equal,) = found(weekday_ramps(pods=8))
    assert equal.places == 8, "pods of one size leave no remainders"
    small_nodes = a_snapshot(node_pools=(a_pool("base"),), types=(a_type("m.small", cpu="1", memory="4Gi"),))
    way = priced(small_nodes, ramp)
    assert way is not None
    assert (way.places, way.requests) == (9, {"cpu": 450, "memory": GIB}), "the mean, where no node has such a place"


def test_slots_that_follow_each_other_are_one_ramp_of_half_an_hour_at_most() -> None:
    lives = [
        a_life(at(day, 9 + minute / 60), 480)
        for day in range(7 * WEEKS)
        if day % 7 < 5
        for minute in (*range(0, 40, 5), 120)
    ]
    first, rest, later = found(lives)
    assert [(clock_text(ramp.starts), ramp.lasts, ramp.pods) for ramp in (first, rest, later)] == [
        ("09:00", LONGEST, 6),
        ("09:30", timedelta(minutes=10), 2),
        ("11:00", timedelta(minutes=5), 1),
    ]
    assert found(lives[::-1]) == (first, rest, later)


def test_minutes_that_differ_from_day_to_day_are_one_ramp() -> None:
    lives = [a_life(at(day, 9 + (7 * pod + 11 * day) % 30 / 60), 480) for day in range(28) for pod in range(12)]
    (ramp,) = found(lives)
    assert (ramp.pods, ramp.used_percent, ramp.covered_percent) == (12, 100, 100)


def test_the_room_is_reduced_to_what_it_may_cost() -> None:
    (ramp,) = found(weekday_ramps())
    rules = msgspec.structs.replace(RULES, nanodollars_per_hour=500)
    reduced = capped(ramp, 1200, rules)
    assert (reduced.pods, reduced.is_capped) == (4, True)
    assert (reduced.places, reduced.amounts) == (4, {"cpu": 4000, "memory": 8 * GIB})
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
    way = priced(snapshot, ramp)
    assert way is not None
    assert way.hourly
    assert priced(msgspec.structs.replace(snapshot, node_pools=()), ramp) is None


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
        came = [life for life in lives if ramp.starts <= _slot(life.created_at) < ramp.starts + ramp.lasts]
        of_days = Counter(wall_time(life.created_at, zone(BERLIN)).date() for life in came)
        assert 1 <= ramp.places <= ramp.pods <= max(of_days.values())
        assert ramp.lasts <= LONGEST
        largest = max(life.requests["cpu"] for life in came)
        assert ramp.requests["cpu"] * (ramp.places - 1 - SPARE_PLACES) <= largest + max(
            sum(life.requests["cpu"] for life in came if wall_time(life.created_at, zone(BERLIN)).date() == day)
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
        lasts=timedelta(minutes=5),
        pods=10,
        amounts={"cpu": 10_000, "memory": 10 * GIB},
        places=10,
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


def test_the_room_of_the_last_days_has_its_price_and_the_waiting_that_it_spares() -> None:
    days = (RoomUse("2026-10-05", 10, 8), RoomUse("2026-10-06", 5, 12))
    ramp = a_ramp(hourly=3_000_000_000, recent=days)
    assert balance(ramp) == RoomBalance(
        days=2, cost=3_000_000_000 * 15 // 10 * 8 // 60, pods=13, wait=timedelta(minutes=13)
    )
    assert balance_sentence(ramp) == (
        "in the last 2 days it would have cost $0.6000 and spared 13 pods 13 minutes of waiting"
    )
    assert not balance_sentence(a_ramp())


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


# Pods that leave again.


def falls(lives: Iterable[PodLife], weeks: int = WEEKS, rules: ForecastRules = RULES) -> tuple[Fall, ...]:
    history = GrowthHistory(time_zone=BERLIN, since=SINCE, read_until=SINCE)
    recorded = extended(history, list(lives), at(7 * weeks, 0), rules).departures
    dates = [(SINCE + timedelta(days=day)).astimezone(zone(BERLIN)).date() for day in range(7 * weeks)]
    return recurring_falls(recorded, dates, rules.days_min)


def leaving(minutes: int, pods: int = 60, hour: float = 15, weekdays: Iterable[int] = range(5)) -> Iterator[PodLife]:
    """Pods that come within two minutes of the morning, and leave one by one."""
    for day in (day for day in range(7 * WEEKS) if day % 7 in weekdays):
        for pod in range(pods):
            yield a_life(at(day, 6), 60 * (hour - 6) + minutes * pod / pods)


def test_pods_that_leave_at_the_same_time_of_weekdays_are_a_fall() -> None:
    in_four_steps = [life for n in range(4) for life in weekday_ramps(2, 9.05 + n / 5)]
    (fall,) = falls(in_four_steps)
    hours = timedelta(hours=1)
    assert fall == Fall(pool="base", weekdays=(0, 1, 2, 3, 4), starts=17 * hours, lasts=hours, pods=8)
    assert falls(weekday_ramps(2)) == (), "too few pods"
    assert falls(weekday_ramps(), weeks=2) == (), "too few days"


def test_pods_that_leave_all_the_time_or_come_again_are_no_fall() -> None:
    ending = [life for n in range(6) for life in weekday_ramps(5, 6.05 + n / 2)]
    assert falls(ending) == ()
    replaced = [*weekday_ramps(), *weekday_ramps(hour=9.05 + 8 + 1 / 60)]
    assert [fall.starts for fall in falls(replaced)] == [timedelta(hours=1)]


@pytest.mark.parametrize("minutes", [150, 240, 600])
def test_pods_that_leave_for_long_are_no_fall_however_their_weekdays_differ(minutes: int) -> None:
    assert falls(leaving(minutes, pods=360)) == ()
    differing = [*leaving(minutes, weekdays=range(4)), *leaving(110, weekdays=(4,))]
    assert [(fall.weekdays, fall.lasts) for fall in falls(differing)] == [((4,), timedelta(hours=2))]


def test_falls_with_a_calm_half_hour_between_them_are_one() -> None:
    def evening(*hours: float) -> list[tuple[timedelta, timedelta]]:
        seen = falls(life for hour in hours for life in leaving(20, 6, hour))
        return [(fall.starts, fall.lasts) for fall in seen]

    hours = timedelta(hours=1)
    assert evening(15, 16) == [(15 * hours, 1.5 * hours)]
    assert evening(15, 16, 17, 18) == []
    assert evening(23, 23.5, 24) == [(23 * hours, 1.5 * hours)], "past midnight"


def test_the_largest_falls_of_a_day_keep_nodes_for_two_hours_together() -> None:
    three = [*leaving(50, 6, 11), *leaving(50, 12, 15), *leaving(50, 9, 19)]
    assert [fall.starts // timedelta(hours=1) for fall in falls(three)] == [15, 19]


def test_falls_do_not_depend_on_the_length_of_slots() -> None:
    hours = timedelta(hours=1)
    rules = msgspec.structs.replace(RULES, slot=hours)
    assert [(fall.starts, fall.lasts) for fall in falls(leaving(110), rules=rules)] == [(15 * hours, 2 * hours)]


def test_pods_that_leave_take_no_place_of_a_ramp_in_the_history() -> None:
    """Ramps have six slots at most, and pods leave in more: a shared bound left one ramp of 22 pods."""
    lives = [
        a_life(at(day, 6 + 170 / 60 * pod / 360), 540 + (150 - 170) * pod / 360)
        for day in range(7 * WEEKS)
        if day % 7 < 5
        for pod in range(360)
    ]
    lives.sort(key=lambda life: life.created_at)
    end = at(7 * WEEKS, 0)
    history = extended(GrowthHistory(time_zone=BERLIN, since=SINCE, read_until=SINCE), lives, end, RULES)
    assert sum(ramp.pods for ramp in recurring(history.days, SINCE, end, RULES)) > 300


def test_nodes_stay_for_pods_that_leave_within_a_day_after_a_ramp() -> None:
    def kept(ramp_days: tuple[int, ...], hour: float, weekdays: tuple[int, ...]) -> tuple[str, ...]:
        fall = Fall(pool="base", weekdays=weekdays, starts=timedelta(hours=hour), lasts=timedelta(hours=1), pods=8)
        forecast = Forecast(at=at(28, 0), rules=RULES, ramps=(a_ramp(weekdays=ramp_days),), falls=(fall,))
        (calendar,) = calendars_of(forecast)
        return tuple(rule.windows[0].schedule for rule in calendar.rules if rule.settings.keeps_occupied)

    assert kept((0, 1), 17, (0, 1, 2)) == ("0 17 * * 1,2",)
    assert kept((0, 1), 8, (0, 1, 2)) == ("0 8 * * 2,3",), "on the morning after"
    assert kept((6,), 1, (0,)) == ("0 1 * * 1",)
    assert kept((0,), 17, (3,)) == ()


def test_nodes_with_pods_stay_until_a_fall_is_over() -> None:
    forbidding = tuple(Budget("0", reasons=(reason,)) for reason in ("Empty", "Drifted"))
    pool = a_pool("base", disruption=Disruption(budgets=forbidding))
    falling = tuple(
        Fall(pool=name, weekdays=(0, 1, 2, 3, 4), starts=timedelta(hours=17), lasts=timedelta(hours=1), pods=8)
        for name in ("base", "other")
    )
    forecast = Forecast(at=at(28, 0), rules=RULES, ramps=(a_ramp(),), falls=falling)
    (calendar,) = calendars_of(forecast)

    def until(hour: float) -> datetime | None:
        here = calendar_at(pool, (calendar,), at(28, hour))
        assert all(allowed(here, 10, reason, at(28, hour)) for reason in UNNAMED), "expiry and closing go on"
        return here.hours.occupied_until if here.hours is not None else None

    end = at(28, 18) + timedelta(minutes=10)
    assert [until(hour) for hour in (16.9, 17.1, 18.1, 18.2)] == [None, end, end, None]
    during = hours_of(calendar_at(pool, (calendar,), at(28, 17.5)))
    assert "rule forecast/8 pods leave of a calendar holds" in during
    assert f"consolidation removes empty nodes only until {end:%Y-%m-%dT%H:%M:%SZ}" in during
    assert calendars_of(msgspec.structs.replace(forecast, ramps=())) == ()


# `disrupt` learns ramps from the ledger that it keeps, an hour at a time, whatever of it cannot be read.


HOUR = datetime(2026, 11, 30, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
_, NODE = a_node_of(a_type(), "n1", pool="base")


class Course:
    """A ledger with a ramp of five pods at 08:02, and what `disrupt` learns from it."""

    def __init__(self) -> None:
        self.objects, self.rows, self.clock = MemoryObjects(), Rows(), FakeClock(HOUR)
        self.writer = LedgerWriter(self.objects, "test", self.clock)
        self.observed = a_snapshot(node_pools=(a_pool("base"),), types=(a_type(cpu="8", memory="32Gi"),))
        for minute in range(-20, 80, 4):
            self.record(HOUR + minute * MINUTE)

    def pods(self, now: datetime) -> tuple[Pod, ...]:
        old = a_pod("old", node_name="n1", created_at=HOUR - timedelta(days=2))
        new = [
            a_pod(
                f"new-{number}", node_name="n1", created_at=HOUR + 2 * MINUTE, started_at=HOUR + 3 * MINUTE, cpu="500m"
            )
            for number in range(5)
        ]
        return (old, *(new if now >= HOUR + 3 * MINUTE else ()))

    def record(self, now: datetime) -> None:
        self.clock.pause(now - self.clock.now())
        snapshot = a_snapshot(now=now, nodes=(NODE,), pods=self.pods(now))
        draft = self.writer.draft(PROVISION, snapshot, Plan(now=now), SearchBound())
        self.writer.write(draft, DecisionSummary("x", "Launched", (LedgerPart(id=f"c{now}", reason="Launched"),)))

    def run(self, now: datetime, **settings: Any) -> RunReport:
        self.clock.pause(now - self.clock.now())
        chosen = msgspec.structs.replace(SETTINGS, **{"forecast": "on", **settings})
        view = SimpleNamespace(snapshot=msgspec.structs.replace(self.observed, now=now), node_pools={})
        runs = ForecastRuns(
            observer=SimpleNamespace(observe=lambda: view),  # type: ignore[arg-type]  # what it uses of it
            recorded=RecordedSnapshots(self.objects, "test", self.clock),
            store=self.rows.stores().forecasts,
            ledger=self.writer,
            kubernetes=None,  # type: ignore[arg-type]  # no ramp stops here
            settings=chosen,
            clock=self.clock,
        )
        report = RunReport()
        runs.run(report, deadline=now + timedelta(minutes=5))
        return report

    @property
    def growth(self) -> dict[str, dict[str, tuple[SlotGrowth, ...]]]:
        assert self.rows.growth is not None
        return self.rows.growth.days


@pytest.fixture
def course() -> Course:
    return Course()


def test_each_settled_hour_of_the_ledger_is_read_once(course: Course) -> None:
    listed: list[str] = []
    keys = course.objects.keys
    course.objects.keys = lambda prefix, after="": listed.append(prefix) or keys(prefix, after)  # type: ignore[method-assign, func-returns-value]  # counts
    first = course.run(HOUR + timedelta(hours=1, minutes=14))
    assert len(listed) < 50, "a day that is over is listed once"
    assert first.counts["forecastHours"] == 29 * 24 - 1, "weeks without decisions cost nothing"
    assert course.growth == {}, "08:00 to 09:00 is settled at 09:15"
    assert course.run(HOUR + timedelta(hours=1, minutes=15)).counts["forecastHours"] == 1
    (slots,) = (pools["base"] for pools in course.growth.values())
    assert [(growth.slot, growth.pods, growth.waited) for growth in slots] == [(96, 5, 60)]
    assert course.rows.growth is not None
    assert course.rows.growth.since == HOUR - 20 * MINUTE
    assert course.run(HOUR + timedelta(hours=1, minutes=16)).counts["forecastHours"] == 0
    assert course.rows.forecast is not None


def test_a_recorded_room_says_what_it_would_have_cost(course: Course) -> None:
    rules, first = ForecastRules(time_zone="UTC"), HOUR - timedelta(days=29)
    lives = [a_life(HOUR - timedelta(weeks=week), 60) for week in (1, 2, 3, 4) for _ in range(10)]
    history = GrowthHistory(time_zone="UTC", since=first, read_until=first)
    course.rows.growth = extended(history, lives, HOUR - timedelta(hours=1), rules)
    report = course.run(HOUR - 2 * MINUTE, forecast="shadow", forecast_time_zone="UTC")
    (message,) = [decision.message for decision in report.decisions if decision.subject == "base"]
    assert message.startswith("would launch ")
    assert re.search(
        r"; in the last day it would have cost \$0\.[0-9]{4} and spared 10 pods 10 minutes of waiting$", message
    )


def test_other_clocks_start_an_empty_history(course: Course) -> None:
    course.run(HOUR + timedelta(hours=2))
    course.run(HOUR + timedelta(hours=2), forecast_time_zone="Europe/Berlin")
    assert course.rows.growth is not None
    assert course.rows.growth.time_zone == "Europe/Berlin"
    assert [growth.slot for growth in course.growth["2026-11-30"]["base"]] == [108]


def test_rows_of_an_earlier_release_are_evidence_and_keep_their_room(course: Course) -> None:
    """Slots had five values, and ramps one slot: a row that is lost leaves four weeks without warm room."""
    dates = [f"2026-11-{day:02}" for day in (2, 9, 16, 23)]
    row = {
        "time_zone": "UTC",
        "since": "2026-11-01T00:00:00Z",
        "read_until": "2026-11-30T00:00:00Z",
        "days": {day: {"base": [[108, 10, 10000, 10 * GIB, 60], [109, 10, 20000, 10 * GIB, 60]]} for day in dates},
    }
    course.rows.growth = msgspec.json.decode(msgspec.json.encode(row), type=GrowthHistory)
    (ramp,) = recurring(course.growth, HOUR - timedelta(days=29), HOUR, ForecastRules(time_zone="UTC"))
    assert (clock_text(ramp.starts), ramp.lasts, ramp.pods, ramp.days) == ("09:00", 10 * MINUTE, 20, 4)
    assert (ramp.places, ramp.requests) == (16, {"cpu": 2000, "memory": -(-20 * GIB // (15 << 20)) << 20})
    assert course.run(HOUR + timedelta(hours=1, minutes=15)).counts["forecastHours"] == 9, "the rest is read"

    forecast = Forecast(at=HOUR, rules=ForecastRules(time_zone="UTC"), ramps=(a_ramp(),), noted={"base": "2026-11-30"})
    old = msgspec.to_builtins(forecast)
    old["ramps"] = [{k: v for k, v in old["ramps"][0].items() if k not in ("lasts", "amounts", "places")}]
    assert msgspec.json.decode(msgspec.json.encode(old), type=Forecast) == forecast


def test_pods_without_requests_are_a_ramp() -> None:
    (ramp,) = found(weekday_ramps(requests={"pods": 1, "cpu": 0, "memory": 0}))
    assert (ramp.pods, ramp.places, ramp.requests) == (10, 10, {"cpu": 0, "memory": 0})


def test_entries_that_cannot_be_read_are_left_out(course: Course) -> None:
    for number, key in enumerate(sorted(key for key in course.objects.objects if key.startswith(DECISIONS))):
        if number % 2:
            course.objects.objects[key] = b"damaged"
    report = course.run(HOUR + timedelta(hours=2))
    assert report.counts.get("unexpectedErrors", 0) == 0
    assert course.growth["2026-11-30"]["base"][0].pods == 5


def test_a_table_that_fails_harms_nothing_else(course: Course) -> None:
    def fails(what: str) -> None:
        raise TransientError("dynamodb:PutItem", what)

    course.rows.before_call = fails
    report = course.run(HOUR + timedelta(hours=2))
    assert report.counts["portErrors"] == 1
    course.rows.before_call = lambda _: None
    course.run(HOUR + timedelta(hours=2))
    assert "2026-11-30" in course.growth


def test_the_history_of_a_day_is_bounded() -> None:
    rules, start = ForecastRules(time_zone="UTC"), HOUR.replace(hour=0)
    history = GrowthHistory(time_zone="UTC", since=start, read_until=start)
    for hour in range(24):
        now = start + timedelta(hours=hour)
        day = {"2026-11-30": {"base": [SlotGrowth(12 * hour + n, hour + 1, 1, 1, 1, 0, 0, 0, 1, 1) for n in range(12)]}}
        lives = _lives_of(day, now)
        history = extended(history, lives, now + timedelta(hours=1), rules)
    slots = history.days["2026-11-30"]["base"]
    assert len(slots) == SLOTS_MAX
    assert min(growth.pods for growth in slots) > 20, "the largest stay"


def _lives_of(day: dict[str, dict[str, list[SlotGrowth]]], now: datetime) -> list[PodLife]:
    return [
        PodLife(
            pool="base",
            created_at=now + (growth.slot % 12) * 5 * MINUTE,
            gone_at=now + (growth.slot % 12) * 5 * MINUTE + MINUTE,
            requests={"pods": 1, "cpu": 1, "memory": 1},
            waited=timedelta(0),
        )
        for growth in day["2026-11-30"]["base"]
        for _ in range(growth.pods)
    ]
