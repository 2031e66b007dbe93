"""Caps in dollars a day or a month."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import labels
from core.calendars import with_calendars
from core.model.node_pool import (
    DAY,
    HOLD_BACK,
    MONTH,
    NO_ON_DEMAND_FALLBACK,
    TELL,
    Calendar,
    CalendarRule,
    CalendarSettings,
    CalendarWindow,
    Cap,
    CapAction,
)
from core.model.plan import Plan
from core.model.pod import Pod
from core.model.snapshot import Snapshot, Spending
from core.model.values.quantity import HOURLY, NODES, dollars, nanodollars
from core.reasons.pods import PodReason
from core.scheduling import schedule
from core.spending import bounds, period_states, spending_of, with_spending
from tests.builders import a_pod, a_pool, a_snapshot, a_type
from tests.unit.scheduling.reading import reasons_of

HOUR = timedelta(hours=1)
ZONES = ("UTC", "Europe/Berlin", "America/Havana", "Asia/Beirut", "Australia/Lord_Howe", "America/Asuncion")


@given(
    st.sampled_from(ZONES),
    st.sampled_from((DAY, MONTH)),
    st.datetimes(datetime(2019, 1, 2), datetime(2029, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001 - the zone follows
)
def test_each_moment_is_in_one_day_and_month_of_each_zone(place: str, period: str, now: datetime) -> None:
    """Also where clocks skip or repeat midnight: periods follow each other without a gap."""
    start, end = bounds(period, place, now)
    assert start <= now < end
    assert bounds(period, place, start) == (start, end)
    assert bounds(period, place, end)[0] == end
    first = start.astimezone(ZoneInfo(place))
    assert (first.hour, first.day) in {(0, first.day), (1, first.day)}
    assert period == DAY or first.day == 1


@pytest.mark.parametrize(("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-07-01", 24)])
def test_a_day_lasts_as_long_as_its_clocks_say(day: str, hours: int) -> None:
    start, end = bounds(DAY, "Europe/Berlin", datetime.fromisoformat(f"{day}T12:00:00+00:00"))
    assert end - start == hours * HOUR


START = datetime(2026, 11, 2, tzinfo=UTC)


def a_cap(**changes: Any) -> Cap:
    return Cap(**{"name": "costs/shop", "namespaces": ("shop",), "periods": {DAY: nanodollars(24)}, **changes})


def calendars(*caps: Cap, **changes: Any) -> tuple[Calendar, ...]:
    return (Calendar(name="costs", caps=caps or (a_cap(),), **changes),)


# What may be launched.


def at_noon(spent: float, hourly: float, *, cap: Cap | None = None, **world: Any) -> Snapshot:
    """A cluster at noon whose cap of 24 dollars a day has spent so much."""
    now = START + 12 * HOUR
    entry = Spending(
        cap="costs/shop", period=DAY, since=START, at=now, spent=nanodollars(spent), hourly=nanodollars(hourly)
    )
    world = {"node_pools": (a_pool(),), "calendars": calendars(cap or a_cap()), **world}
    return with_spending(with_calendars(a_snapshot(now=now, spending=(entry,), **world)))


@pytest.mark.parametrize(
    ("spent", "ahead", "allowed"),
    [
        (0.0, None, 2.0),
        (12.0, None, 1.0),
        (18.0, None, 0.5),
        (24.0, None, 0.0),
        (30.0, None, 0.0),
        (12.0, 3 * HOUR, 4.0),
        (0.0, 36 * HOUR, 1.0),
    ],
)
def test_what_is_left_of_a_day_bounds_what_nodes_cost_an_hour(spent: float, ahead: timedelta, allowed: float) -> None:
    """At noon, twelve hours are left, unless launches are counted for less; what runs into the next day is counted there."""
    snapshot = at_noon(spent, 0.0, cap=a_cap(ahead=ahead))
    (pool,) = snapshot.node_pools
    assert dollars(pool.caps[0].limits[HOURLY]) == allowed
    for_all = at_noon(spent, 0.0, cap=a_cap(ahead=ahead, namespaces=(), limits={HOURLY: nanodollars(1.5), NODES: 3}))
    least = {HOURLY: nanodollars(min(allowed, 1.5)), NODES: 3}
    assert for_all.node_pools[0].shared_limits == {"costs/shop": least}
    assert with_spending(snapshot) == snapshot


def test_hours_in_which_all_node_pools_are_closed_cost_nothing() -> None:
    """Open from 8 to 18 o'clock: at noon, six hours are left of this day, and four of the next one are counted."""
    window = CalendarWindow(schedule="0 8 * * *", duration=10 * HOUR)
    nights = CalendarRule(
        name="costs/nights", time_zone="UTC", settings=CalendarSettings(closed=True), windows=(window,), is_outside=True
    )
    (state,) = period_states(at_noon(12.0, 1.0, calendars=calendars(rules=(nights,))))
    assert (dollars(state.allowed), dollars(state.forecast)) == (2.0, 18.0)
    pools = (a_pool(), a_pool("other"))
    other = Calendar(name="nights", node_pools=("default",), rules=(nights,))
    (state,) = period_states(at_noon(12.0, 1.0, calendars=(*calendars(), other), node_pools=pools))
    assert (dollars(state.allowed), dollars(state.forecast)) == (1.0, 24.0)


def test_another_period_has_spent_nothing_yet_and_later_in_this_one_what_runs_is_added() -> None:
    """As for `explain --at`."""
    snapshot = at_noon(10.0, 1.0)
    later, tomorrow = (msgspec.structs.replace(snapshot, now=snapshot.now + n * HOUR) for n in (2, 12))
    assert [dollars(period_states(at)[0].spent) for at in (later, tomorrow)] == [12.0, 0.0]


# What happens before a period is spent.


SPOT_AND_MORE = a_type("m5.large", cpu="2", memory="8Gi", price=0.1)
ON_DEMAND = a_type("m5.large", cpu="2", memory="8Gi", price=0.1, capacity_types=(labels.ON_DEMAND,))
ACTIONS = (
    CapAction(percent=80, do=(HOLD_BACK, TELL)),
    CapAction(percent=90, do=(NO_ON_DEMAND_FALLBACK,)),
)


@pytest.mark.parametrize(
    ("hourly", "percent", "engaged", "told"),
    [(0.5, 75, (), 0), (0.6, 80, (HOLD_BACK, TELL), 80), (0.9, 95, (HOLD_BACK, NO_ON_DEMAND_FALLBACK, TELL), 80)],
)
def test_actions_follow_the_forecast(hourly: float, percent: int, engaged: tuple[str, ...], told: int) -> None:
    snapshot = at_noon(12.0, hourly, cap=a_cap(actions=ACTIONS))
    (state,) = period_states(snapshot)
    assert (state.percent, state.warned_at) == (percent, told)
    assert tuple(name for cap in snapshot.node_pools[0].saving_caps for name in cap.engaged) == engaged


def planned(hourly: float, *pods: Pod, types: Any = (SPOT_AND_MORE,)) -> Plan:
    return schedule(at_noon(12.0, hourly, cap=a_cap(actions=ACTIONS), pods=pods, types=types))


def a_shop_pod(name: str, **annotations: str) -> Pod:
    return msgspec.structs.replace(a_pod(name, namespace="shop", cpu="1800m"), annotations=annotations)


def test_pods_that_may_wait_are_held_back_once_the_cap_says_so() -> None:
    """Before, spot capacity is bought for them at once; another namespace's are not concerned."""
    job = a_shop_pod("job", **{labels.START_BEFORE: "8h"})
    other = msgspec.structs.replace(job, name="other", namespace="other")
    assert reasons_of(planned(0.5, job, other)) == {}
    held = planned(0.6, job, other)
    assert reasons_of(held) == {"job": PodReason.HELD_BACK}
    assert len(held.claims) == 1


def test_spot_pods_get_no_on_demand_node_once_the_cap_says_so() -> None:
    """A pod that must run on demand, or another namespace's, gets one; and the message names the cap."""
    other = a_pod("other", cpu="1800m")
    (spot,) = planned(0.9, a_shop_pod("web")).claims
    assert spot.capacity_types == (labels.SPOT,)
    assert {claim.capacity_types for claim in planned(0.6, a_shop_pod("web")).claims} != {(labels.SPOT,)}
    plan = planned(0.9, a_shop_pod("web"), other, types=(ON_DEMAND,))
    assert reasons_of(plan) == {"web": PodReason.BUDGET_EXHAUSTED}
    assert "$12 of $24 a day are spent" in plan.unschedulable[0].message
    assert len(plan.claims) == 1


def test_the_reason_of_a_pod_beyond_the_cap_has_the_spending_and_when_the_period_ends() -> None:
    plan = planned(0.0, *(a_shop_pod(f"p{n}") for n in range(15)), types=(ON_DEMAND,))
    assert set(reasons_of(plan).values()) == {PodReason.BUDGET_EXHAUSTED}
    assert "$12 of $24 a day are spent, what runs costs $0 an hour" in plan.unschedulable[0].message
    assert "the next one begins at 2026-11-03T00:00:00Z" in plan.unschedulable[0].message
    assert spending_of(at_noon(1.0, 0.0), "costs/other") == ""
