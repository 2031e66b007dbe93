"""What calendars say about NodePools, and when: the wall clock of every zone, rules over rules, closing, waking, warm room."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

import msgspec
import pytest

from core import labels
from core.api import translation
from core.calendars import (
    EDGES_MAX,
    as_written,
    at,
    boundaries,
    closed_pools,
    closing_claims,
    holds,
    hours_of,
    instant,
    next_change,
    periods,
    starts,
    stays_until,
    wall_time,
    why_closed,
    with_calendars,
    zone,
)
from core.cron import Schedule
from core.errors import InvalidInputError
from core.model.node_pool import (
    FORCE,
    GRACE_PERIOD,
    Budget,
    Calendar,
    CalendarRule,
    CalendarSettings,
    CalendarWindow,
    WarmRoom,
)
from core.model.plan import Hold, NodeClaim
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint, Toleration
from core.reasons.pods import PoolClosed
from core.scheduling import schedule
from core.scheduling.context import is_spare, pending_pods
from tests.builders import a_node_of, a_pod, a_pool, a_snapshot, a_type

BERLIN = "Europe/Berlin"
MONDAY = datetime(2026, 11, 30, tzinfo=UTC)
"""A Monday in winter: clocks in Berlin show an hour more."""

OFFICE = CalendarWindow(schedule="0 8 * * mon-fri", duration=timedelta(hours=11))


def a_rule(name: str = "office/nights", zone_name: str = BERLIN, **changes: Any) -> CalendarRule:
    settings = {key: changes.pop(key) for key in [*changes] if key in CalendarSettings.__struct_fields__}
    return CalendarRule(name=name, time_zone=zone_name, settings=CalendarSettings(**settings), **changes)


def nights(**changes: Any) -> CalendarRule:
    """Return the rule that closes outside of office hours."""
    return a_rule(**({"windows": (OFFICE,), "is_outside": True, "closed": True} | changes))


def a_calendar(*rules: CalendarRule, **changes: Any) -> Calendar:
    return Calendar(**({"name": "office", "rules": rules} | changes))


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


# The wall clock.


def test_a_skipped_time_is_the_moment_of_the_jump_and_a_repeated_one_its_first() -> None:
    berlin = zone(BERLIN)
    assert instant(utc("2026-03-29T02:30"), berlin) == utc("2026-03-29T01:00")
    assert instant(utc("2026-03-29T03:00"), berlin) == utc("2026-03-29T01:00")
    assert instant(utc("2026-10-25T02:30"), berlin) == utc("2026-10-25T00:30")
    assert instant(utc("2026-10-25T03:00"), berlin) == utc("2026-10-25T02:00")
    assert wall_time(utc("2026-10-25T01:30"), berlin) == utc("2026-10-25T03:00") - timedelta(microseconds=1)
    assert wall_time(utc("2026-10-25T02:00"), berlin) == utc("2026-10-25T03:00")


@pytest.mark.parametrize("name", ["Mars/Olympus", "Europe", "/etc/localtime", "../zone", ""])
def test_a_zone_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(InvalidInputError, match="IANA"):
        zone(name)


YEARS = (2026, 2036)


def jumps(name: str) -> tuple[tuple[datetime, int, int], ...]:
    """Return the days of the ten years on which a zone's offset changes: the day, the offset in minutes before and after."""
    place, found = ZoneInfo(name), []
    day = datetime(YEARS[0], 1, 1, tzinfo=UTC)
    before = day.astimezone(place).utcoffset() or timedelta(0)
    while day.year < YEARS[1]:
        day += timedelta(days=1)
        after = day.astimezone(place).utcoffset() or timedelta(0)
        if after != before:
            found.append((day, before // timedelta(minutes=1), after // timedelta(minutes=1)))
        before = after
    return tuple(found)


def zones_that_change() -> Iterator[str]:
    """Yield one zone for each list of changes that zones of the world have."""
    seen: dict[tuple[Any, ...], str] = {}
    for name in sorted(available_timezones()):
        changes = jumps(name)
        if changes:
            seen.setdefault(changes, name)
    yield from seen.values()


EDGY = (
    CalendarWindow(schedule="30 1 * * *", duration=timedelta(hours=2)),
    CalendarWindow(schedule="15 2 * * *", duration=timedelta(minutes=30)),
    CalendarWindow(schedule="0 0 * * *", duration=timedelta(minutes=45)),
)


@pytest.mark.ci
def test_ten_years_of_changing_clocks_in_every_zone() -> None:
    """A window is open from when clocks first show its start until they first show its end, judged minute by minute."""
    checked = 0
    for name in zones_that_change():
        place = ZoneInfo(name)
        rules = [a_rule(zone_name=name, windows=(window,)) for window in EDGY]
        for day, *_ in jumps(name):
            furthest = datetime.min.replace(tzinfo=UTC)
            for minute in range(-26 * 60, 3 * 60):
                moment = day + timedelta(minutes=minute)
                furthest = max(furthest, moment.astimezone(place).replace(tzinfo=UTC, fold=0))
                if minute % 15 == 0 and minute > -25 * 60 and _is_near_a_jump(moment, place):
                    for rule, window in zip(rules, EDGY, strict=True):
                        checked += 1
                        assert holds(rule, moment) == _is_open(window, furthest), (name, moment, window)
    assert checked > 10_000


def _is_near_a_jump(moment: datetime, place: ZoneInfo) -> bool:
    hours = (moment + timedelta(hours=shift) for shift in (-2, 2))
    return len({hour.astimezone(place).utcoffset() for hour in hours}) > 1


def _is_open(window: CalendarWindow, furthest: datetime) -> bool:
    """Whether clocks have shown a start and not yet its end, given the furthest time that they have shown."""
    minute, hour = (int(part) for part in window.schedule.split()[:2])
    opened = [(furthest + timedelta(days=days)).replace(hour=hour, minute=minute) for days in (-1, 0)]
    return any(start <= furthest < start + window.duration for start in opened)


@pytest.mark.parametrize("name", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])
def test_the_next_change_is_the_first_moment_at_which_the_answer_differs(name: str) -> None:
    for day, *_ in jumps(name)[:4]:
        for window in EDGY:
            rule = a_rule(zone_name=name, windows=(window,))
            moment = day - timedelta(days=2)
            for _ in range(8):
                change = next_change(rule, moment)
                assert change is not None
                assert holds(rule, change) != holds(rule, moment)
                assert holds(rule, change - timedelta(seconds=1)) == holds(rule, moment)
                moment = change


# Rules.


@pytest.mark.parametrize(
    ("moment", "closed"),
    [
        ("2026-11-30T06:59", True),  # Monday, a minute before eight in Berlin
        ("2026-11-30T07:00", False),
        ("2026-11-30T17:59", False),
        ("2026-11-30T18:00", True),
        ("2026-12-05T10:00", True),  # Saturday
    ],
)
def test_a_rule_outside_its_windows_closes_nights_and_weekends(moment: str, closed: bool) -> None:
    assert holds(nights(), utc(moment)) is closed


def test_no_window_opens_on_an_excepted_date_so_a_holiday_stays_closed() -> None:
    rule = nights(except_dates=("2026-12-24", "2026-12-25"))
    assert holds(rule, utc("2026-12-24T10:00"))
    assert next_change(rule, utc("2026-12-23T18:00")) == utc("2026-12-28T07:00")
    assert list(starts(rule, OFFICE, utc("2026-12-23T12:00"), utc("2026-12-29T00:00"))) == [utc("2026-12-28T08:00")]


def test_a_window_that_opens_once_and_a_rule_that_is_valid_for_some_days() -> None:
    launch = CalendarWindow(start=utc("2026-12-01T20:00"), duration=timedelta(hours=6))
    rule = a_rule(windows=(launch,), weight=90)
    assert next_change(rule, MONDAY) == utc("2026-12-01T19:00")
    assert next_change(rule, utc("2026-12-01T19:00")) == utc("2026-12-02T01:00")
    assert next_change(rule, utc("2026-12-02T01:00")) is None
    freeze = a_rule(valid_from="2026-12-20", valid_until="2026-12-31", except_dates=("2026-12-25",), weight=1)
    moment, changes = MONDAY, []
    while (change := next_change(freeze, moment)) is not None:
        changes.append(change)
        moment = change
    assert changes == [utc(f"2026-12-{day}T23:00") for day in ("19", "24", "25", "31")]


def test_a_rule_whose_windows_touch_holds_without_a_break() -> None:
    rule = a_rule(windows=(CalendarWindow(schedule="*/30 * * * *", duration=timedelta(minutes=30)),), weight=1)
    assert holds(rule, MONDAY)
    assert next_change(rule, MONDAY) is None
    with_a_break = a_rule(windows=rule.windows, except_dates=("2027-01-06",), weight=1)
    assert next_change(with_a_break, utc("2027-01-05T00:00")) == utc("2027-01-05T23:00")


def test_windows_outside_the_validity_of_a_rule_are_no_changes() -> None:
    """Two thousand of them took a sixth of a second, for each rule that has ended, NodePool and run."""
    for is_outside in (True, False):
        expired = a_rule(windows=(OFFICE,), is_outside=is_outside, valid_until="2026-06-30", weight=1)
        assert next_change(expired, MONDAY) is None
        coming = a_rule(windows=(OFFICE,), is_outside=is_outside, valid_from="2040-06-01", weight=1)
        begins = utc("2040-05-31T22:00") if is_outside else utc("2040-06-01T06:00")
        assert next_change(coming, MONDAY) == begins
        last = a_rule(windows=(OFFICE,), is_outside=is_outside, valid_until="2026-11-30", weight=1)
        assert next_change(last, utc("2026-11-30T18:30")) == (utc("2026-11-30T23:00") if is_outside else None)


@pytest.mark.parametrize(
    ("schedule", "hours"), [("0 8 * * *", 24), ("0 0 * * *", 48), ("*/20 * * * *", 1), ("30 6,18 * * 0-6", 12)]
)
def test_a_window_that_never_closes_has_no_change(schedule: str, hours: int) -> None:
    window = CalendarWindow(schedule=schedule, duration=timedelta(hours=hours))
    hours_of_pool = at(a_pool("dev"), [a_calendar(a_rule(windows=(window,), closed=True))], MONDAY).hours
    assert hours_of_pool is not None
    assert (hours_of_pool.changes_at, hours_of_pool.opens_at) == (None, None)
    weekdays = CalendarWindow(schedule="0 8 * * 1-5", duration=timedelta(hours=24))
    assert next_change(a_rule(windows=(weekdays,), weight=1), utc("2026-11-30T08:00")) == utc("2026-12-05T07:00")


@pytest.mark.parametrize("closing", [{"closed": True}, {"closed": True, "pods_that_stay": FORCE}])
def test_windows_of_each_minute_end_no_run(closing: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    searches: list[datetime] = []
    next_after = Schedule.next_after
    monkeypatch.setattr(Schedule, "next_after", lambda cron, wall: searches.append(wall) or next_after(cron, wall))
    window = CalendarWindow(schedule="* * * * *", duration=timedelta(minutes=1))
    rules = [
        a_rule(
            f"office/{number}",
            windows=(window,),
            except_dates=("2030-01-01",),
            force_after=timedelta(days=9),
            **closing,
        )
        for number in range(2)
    ]
    hours = at(a_pool("dev"), [a_calendar(*rules)], MONDAY).hours
    assert hours is not None
    assert (hours.closed_by, hours.opens_at, hours.is_forced) == ("office/1", None, False)
    assert len(searches) < 20 * EDGES_MAX


WORKDAYS = CalendarWindow(schedule="0 0 * * 1-5", duration=timedelta(hours=24))
WEEKEND = CalendarWindow(schedule="0 0 * * 6,0", duration=timedelta(hours=24))


@pytest.mark.parametrize(
    ("weekend", "opens_at"),
    [
        ({}, None),
        ({"except_dates": ("2029-06-16",)}, "2029-06-15T22:00"),
        ({"except_dates": ("2029-06-13",)}, None),
        ({"valid_until": "2031-02-01"}, "2031-02-01T23:00"),
        ({"windows": (WEEKEND, CalendarWindow(start=utc("2030-01-01T00:00"), duration=timedelta(days=40)))}, None),
    ],
)
def test_weeks_that_are_alike_are_seen_twice_at_most(
    weekend: dict[str, Any], opens_at: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two rules that together close all week took two thousand edges for each change that `validate` follows."""
    searches: list[datetime] = []
    next_after = Schedule.next_after
    monkeypatch.setattr(Schedule, "next_after", lambda cron, wall: searches.append(wall) or next_after(cron, wall))
    rules = [
        a_rule("office/workdays", windows=(WORKDAYS,), closed=True),
        a_rule("office/weekend", **{"windows": (WEEKEND,), "closed": True, **weekend}),
    ]
    hours = at(a_pool("dev"), [a_calendar(*rules)], MONDAY).hours
    assert hours is not None
    assert hours.opens_at == (None if opens_at is None else utc(opens_at))
    assert len(searches) < 1_000


def test_one_rule_of_several_windows_that_touch_has_no_change_but_at_its_dates() -> None:
    both = a_rule(windows=(WORKDAYS, WEEKEND), weight=1)
    assert next_change(both, MONDAY) is None
    assert next_change(msgspec.structs.replace(both, except_dates=("2033-03-03",)), MONDAY) == utc("2033-03-02T23:00")
    ending = msgspec.structs.replace(both, valid_until="2033-03-03")
    assert next_change(ending, MONDAY) == utc("2033-03-03T23:00")


def test_calendars_are_for_names_or_labels_or_all() -> None:
    rule, pool = a_rule(weight=7), a_pool("dev", own_labels={"team": "a"})
    for changes, expected in (
        ({}, 7),
        ({"node_pools": ("dev",)}, 7),
        ({"node_pools": ("prod",)}, 0),
        ({"match_labels": {"team": "a"}}, 7),
        ({"match_labels": {"team": "b"}}, 0),
        ({"node_pools": ("dev",), "match_labels": {"team": "b"}}, 7),
    ):
        assert at(pool, [a_calendar(rule, **changes)], MONDAY).weight == expected, changes


def test_later_rules_win_and_say_so() -> None:
    first = a_rule(
        "a/first", weight=10, limits={"cpu": 10_000, "nodes": 4}, requirements=(Requirement.one_of("x", "1"),)
    )
    second = a_rule("b/second", weight=20, limits={"cpu": 20_000})
    annotated = a_calendar(a_rule("dev/own", weight=30), name="dev")
    pool = a_pool("dev", Requirement.one_of("x", "0"), calendar=annotated, limits={"memory": 5}, weight=1)
    calendars = [a_calendar(second, name="b"), a_calendar(first, name="a")]
    found = at(pool, calendars, MONDAY)
    assert found.weight == 30
    assert found.limits == {"memory": 5, "cpu": 20_000, "nodes": 4}
    assert found.requirements == (Requirement.one_of("x", "1"),)
    assert found.hours is not None
    assert found.hours.rules == ("a/first", "b/second", "dev/own")
    assert found.hours.overruled == (
        "limits of rule a/first by rule b/second",
        "weight of rule a/first by rule b/second",
        "weight of rule b/second by rule dev/own",
    )
    assert found.written_requirements == pool.requirements
    assert as_written(found) == msgspec.structs.replace(pool, hours=None)
    assert at(found, calendars, MONDAY) == found


def test_budgets_are_replaced_while_the_rule_holds() -> None:
    rule = a_rule(windows=(OFFICE,), budgets=(Budget("0"),))
    assert at(a_pool(), [a_calendar(rule)], utc("2026-11-30T12:00")).disruption.budgets == (Budget("0"),)
    assert at(a_pool(), [a_calendar(rule)], utc("2026-11-30T20:00")).disruption.budgets == a_pool().disruption.budgets


# Closing and waking.


def test_a_closed_pool_launches_nothing_and_names_its_opening() -> None:
    now = utc("2026-11-30T05:00")
    snapshot = a_snapshot(
        types=(a_type("m5.large"),),
        now=now,
        node_pools=(a_pool("dev"),),
        calendars=(a_calendar(nights()),),
        pods=(a_pod("p"),),
    )
    closed = with_calendars(snapshot)
    assert closed_pools(closed) == {"dev"}
    assert why_closed(closed.node_pools[0]) == PoolClosed("office/nights", datetime(2026, 11, 30, 7, tzinfo=UTC))
    plan = schedule(closed)
    assert not plan.claims
    assert [(found.pod, found.reason) for found in plan.unschedulable] == [("default/p", "OutsideHours")]
    assert "until 2026-11-30T07:00:00Z" in plan.unschedulable[0].message
    reopened = a_rule("office/launch", closed=False)
    assert schedule(
        with_calendars(msgspec.structs.replace(snapshot, calendars=(a_calendar(nights(), reopened),)))
    ).claims


def test_a_pod_that_no_node_of_the_closed_pool_could_hold_has_another_reason() -> None:
    snapshot = a_snapshot(
        types=(a_type("m5.large"),),
        now=utc("2026-11-30T05:00"),
        node_pools=(a_pool("dev"), a_pool("prod", calendar=a_calendar(a_rule("prod/always", closed=False)))),
        calendars=(a_calendar(nights(), node_pools=("dev",)),),
        pods=(a_pod("p", requests={"cpu": 500_000, "pods": 1}),),
    )
    (found,) = schedule(with_calendars(snapshot)).unschedulable
    assert found.reason == "NoOfferingFits"
    assert "its nodes could not run the pod either" in found.message


def test_a_pool_wakes_its_lead_time_before_it_opens() -> None:
    calendars = [a_calendar(nights(lead_time=timedelta(minutes=10)))]
    for text, is_closed, is_waking in (
        ("2026-11-30T06:49:59", True, False),
        ("2026-11-30T06:50", False, True),
        ("2026-11-30T07:00", False, False),
    ):
        pool = at(a_pool("dev"), calendars, utc(text))
        assert pool.hours is not None
        assert (pool.is_closed, pool.hours.is_waking) == (is_closed, is_waking), text
    before = at(a_pool("dev"), calendars, utc("2026-11-30T03:00"))
    assert before.hours is not None
    assert before.hours.changes_at == utc("2026-11-30T06:50")


def test_a_pool_that_never_opens_says_so() -> None:
    pool = at(a_pool("dev"), [a_calendar(a_rule("office/end", closed=True))], MONDAY)
    assert why_closed(pool) == PoolClosed("office/end", None)
    assert why_closed(a_pool()) is None


def test_the_time_of_force_counts_from_the_closing() -> None:
    rule = nights(pods_that_stay=FORCE, force_after=timedelta(hours=3))
    evening = at(a_pool("dev"), [a_calendar(rule)], utc("2026-11-30T19:30")).hours
    assert evening is not None
    assert (evening.force_at, evening.is_forced) == (utc("2026-11-30T21:00"), False)
    night = at(a_pool("dev"), [a_calendar(rule)], utc("2026-11-30T21:00"))
    assert night.hours is not None
    assert night.hours.is_forced
    assert "2026-11-30T21:00:00Z" in stays_until(at(a_pool("dev"), [a_calendar(rule)], utc("2026-11-30T18:00")))
    assert "terminationGracePeriod" in stays_until(
        at(a_pool(), [a_calendar(nights(pods_that_stay=GRACE_PERIOD))], MONDAY)
    )
    assert "Leave" in stays_until(at(a_pool(), [a_calendar(nights())], MONDAY))


def test_the_claims_of_a_closed_pool_leave_oldest_first() -> None:
    held = Hold(until=MONDAY + timedelta(hours=1), reason="x", message="")
    claims = tuple(
        NodeClaim(name=name, labels={labels.NODEPOOL: pool}, created_at=MONDAY - timedelta(hours=age), hold=hold)
        for name, pool, age, hold in (
            ("b", "dev", 1, None),
            ("a", "dev", 2, None),
            ("c", "prod", 3, None),
            ("h", "dev", 4, held),
        )
    )
    snapshot = a_snapshot(now=MONDAY, node_claims=claims, node_pools=(a_pool("dev"), a_pool("prod")))
    assert closing_claims(snapshot, ["dev"]) == {"a": "dev", "b": "dev"}
    going = msgspec.structs.replace(snapshot, marked_for_deletion=("a",))
    assert closing_claims(going, ["dev"]) == {"b": "dev"}


# Warm room.


def test_warm_room_is_launched_ahead_of_its_window_and_only_while_the_pool_is_open() -> None:
    ramp = CalendarWindow(schedule="0 9 * * *", duration=timedelta(hours=1))
    rule = a_rule(
        "office/ramp", windows=(ramp,), warm=WarmRoom(pods=3, requests={"cpu": 1000}), lead_time=timedelta(minutes=5)
    )
    snapshot = a_snapshot(types=(a_type("m5.large"),), node_pools=(a_pool("dev"),), calendars=(a_calendar(rule),))

    def kept(text: str) -> int:
        found = with_calendars(msgspec.structs.replace(snapshot, now=utc(text)))
        return sum(len(claim.buffer_pods) for claim in schedule(found).claims)

    assert [kept(f"2026-11-30T{clock}") for clock in ("07:54", "07:55", "08:59", "09:00")] == [0, 3, 3, 0]
    closed = msgspec.structs.replace(snapshot, calendars=(a_calendar(rule, a_rule("office/shut", closed=True)),))
    assert not with_calendars(msgspec.structs.replace(closed, now=utc("2026-11-30T08:30"))).buffers


def test_pods_that_come_use_up_room_that_is_not_made_again() -> None:
    window = CalendarWindow(schedule="0 9 * * *", duration=timedelta(hours=1))
    room = WarmRoom(pods=5, requests={"cpu": 2000, "memory": 1 << 30}, refill=False)
    rule = a_rule("office/ramp", windows=(window,), warm=room, lead_time=timedelta(minutes=5))
    pool = a_pool("dev", taints=(Taint("team", "NoSchedule", "dev"),), labels={"pool": "dev"})
    _, node = a_node_of(a_type("m5.large"), "n1", pool="dev")
    tolerant = {"tolerations": (Toleration(key="team", operator="Exists"),), "cpu": "3", "memory": "4Gi"}
    came = utc("2026-11-30T07:55")
    each = {
        "before": a_pod("before", node_name="n1", created_at=came - timedelta(seconds=1), **tolerant),
        "at the launch": a_pod("launch", node_name="n1", created_at=came, **tolerant),
        "in the window": a_pod("window", node_name="n1", created_at=came + timedelta(minutes=9), **tolerant),
        "pending": a_pod("pending", created_at=came, **tolerant),
        "elsewhere": a_pod("elsewhere", node_name="n2", created_at=came, **tolerant),
        "not tolerating": a_pod("other", created_at=came, cpu="3", memory="4Gi"),
        "for another": a_pod(
            "another", created_at=came, node_selector=(Requirement.one_of("pool", "prod"),), **tolerant
        ),
    }
    snapshot = a_snapshot(types=(a_type("m5.large"),), node_pools=(pool,), calendars=(a_calendar(rule),), nodes=(node,))

    def taken(pods: Iterable[str], clock: str = "08:04") -> int:
        seen = msgspec.structs.replace(
            snapshot, now=utc(f"2026-11-30T{clock}"), pods=tuple(each[name] for name in pods)
        )
        (buffer,) = with_calendars(seen).buffers
        return buffer.taken

    counted = ["at the launch", "in the window", "pending"]
    assert [taken([name]) for name in each] == [int(name in counted) for name in each], "3 CPUs are one place of 2"
    assert taken(counted) == 4, "9 CPUs use up four places; memory would have used up twelve"
    assert taken(counted, "07:57") == 4, "pods that come before the window use its room, too"
    seen = msgspec.structs.replace(snapshot, now=utc("2026-11-30T08:04"), pods=(each["at the launch"],))
    assert sum(is_spare(pod) for pod in pending_pods(with_calendars(seen))) == 4
    assert [taken([], clock) for clock in ("08:04", "08:05")] == [0, 4], (
        "the node has room for one, and none is launched"
    )


# What follows.


def test_warm_room_that_is_launched_ahead_lasts_until_its_window_however_short_that_is() -> None:
    window = CalendarWindow(schedule="0 9 * * *", duration=timedelta(minutes=5))
    rule = a_rule("office/ramp", "UTC", windows=(window,), warm=WarmRoom(pods=3), lead_time=timedelta(minutes=15))
    minutes = [MONDAY + timedelta(hours=8, minutes=minute) for minute in range(40, 70)]
    hours = [at(a_pool(), (a_calendar(rule),), minute).hours for minute in minutes]
    kept = [minute for minute, state in zip(minutes, hours, strict=True) if state is not None and state.warm]
    assert kept == [MONDAY + timedelta(hours=8, minutes=minute) for minute in range(45, 65)]
    before, *_ = hours
    assert before is not None
    assert before.changes_at == kept[0]


def test_periods_cover_the_time_without_gaps_and_boundaries_are_their_edges() -> None:
    calendars = [
        a_calendar(
            nights(lead_time=timedelta(minutes=10)),
            a_rule(
                "office/tue", windows=(CalendarWindow(schedule="0 12 * * tue", duration=timedelta(hours=1)),), weight=50
            ),
        )
    ]
    until = MONDAY + timedelta(days=2)
    found = list(periods(a_pool("dev"), calendars, MONDAY, until, at_most=100))
    assert [period.since for period in found] == [MONDAY, *(period.until for period in found[:-1])]
    assert found[-1].until == until
    assert [(f"{period.since:%a %H:%M}", period.pool.is_closed, period.pool.weight) for period in found] == [
        ("Mon 00:00", True, 0),
        ("Mon 06:50", False, 0),
        ("Mon 07:00", False, 0),
        ("Mon 18:00", True, 0),
        ("Tue 06:50", False, 0),
        ("Tue 07:00", False, 0),
        ("Tue 11:00", False, 50),
        ("Tue 12:00", False, 0),
        ("Tue 18:00", True, 0),
    ]
    snapshot = with_calendars(a_snapshot(now=MONDAY, node_pools=(a_pool("dev"),), calendars=tuple(calendars)))
    assert boundaries(snapshot, until, at_most=50) == tuple(period.since for period in found[1:])
    assert len(boundaries(snapshot, until, at_most=3)) == 3


def test_an_explanation_says_which_rules_hold_and_what_they_replace() -> None:
    calendars = [
        a_calendar(nights(lead_time=timedelta(minutes=10)), a_rule("office/w", weight=3), a_rule("office/v", weight=4))
    ]
    text = "\n".join(hours_of(at(a_pool("dev"), calendars, utc("2026-11-30T06:55"))))
    assert "rule office/nights of a calendar holds" in text
    assert "weight of rule office/w by rule office/v" in text
    assert "it wakes" in text
    assert hours_of(a_pool()) == ()


def test_a_restricted_capacity_type_is_for_new_nodes() -> None:
    spot = a_rule(requirements=(Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),))
    pool = at(a_pool("dev", Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND)), [a_calendar(spot)], MONDAY)
    assert pool.requirements == (Requirement.one_of(labels.CAPACITY_TYPE, labels.SPOT),)
    assert pool.written_requirements == (Requirement.one_of(labels.CAPACITY_TYPE, labels.ON_DEMAND),)


# Dates at the ends of the calendar.


FAR = ("0001-01-01", "9999-12-31")


@pytest.mark.parametrize("place", ["UTC", "Pacific/Kiritimati", "Etc/GMT+12"])
@pytest.mark.parametrize(
    "rule",
    [
        *({"validFrom": date} for date in FAR),
        *({"validUntil": date} for date in FAR),
        *({"exceptDates": [date]} for date in FAR),
        {"windows": [{"start": f"{FAR[0]}T00:00", "end": f"{FAR[1]}T23:59"}]},
        {"windows": [{"start": "2026-11-01T00:00", "end": f"{FAR[1]}T23:59"}], "when": "Outside"},
        {"windows": [{"start": f"{FAR[1]}T00:00", "end": f"{FAR[1]}T23:59"}]},
    ],
)
def test_dates_at_the_ends_of_pythons_calendar_are_for_ever(rule: dict[str, Any], place: str) -> None:
    """A rule valid until 9999-12-31, as people write `for ever`, ended every run."""
    rules = [{"name": "far", **rule, "settings": {"closed": True, "leadTime": "10m"}}]
    far = translation.calendar({"metadata": {"name": "far"}, "spec": {"timeZone": place, "rules": rules}})
    closed = at(a_pool("dev"), [far], MONDAY)
    assert closed.hours is not None
    assert list(periods(closed, [far], MONDAY, MONDAY + timedelta(days=3), at_most=9))
