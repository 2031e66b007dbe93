"""Caps in dollars a day or a month: what they have spent, how the period ends, and what may still be launched.

What a cap has spent is metered (`core.lifecycle.metering`).

Nothing is evicted for a cap, so a launch must be paid for for a while: for the length of a period, or as the cap says. What is
left of the amount, divided by the hours that are left of the period, bounds what nodes may cost an hour; so does the next
period's amount, divided by the hours of the while that are in it. If no node runs for longer, no period is overshot. A cap of a
period is thereby a cap in dollars an hour that follows the spending, and holds like one: for claims at their highest price, and
for several runs at once. Hours in which calendars close all NodePools of the cap cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.calendars import closes, instant, is_for, periods, wall_time, zone
from core.model.node_pool import (
    DAY,
    HOLD_BACK,
    NO_ON_DEMAND_FALLBACK,
    TELL,
    Calendar,
    Cap,
    CapAction,
    NodePool,
)
from core.model.pod import Pod
from core.model.snapshot import Snapshot, Spending
from core.model.values import quantity

_HOUR: Final = timedelta(hours=1)
_MICROSECOND: Final = timedelta(microseconds=1)

SHORTEST: Final = timedelta(minutes=1)
"""A launch is paid for at least so long: EC2 bills a minute in any case."""

DIGITS: Final = 3
"""Digits of the dollars an hour that a period allows. With all of them, each run would see another limit, and plan again."""

CHANGES_MAX: Final = 500
"""The most changes of a NodePool's calendars that are followed to the end of a period; the rest of it counts as open."""


# Periods, by the clocks of the Calendar's zone.


def bounds(period: str, time_zone: str, now: datetime) -> tuple[datetime, datetime]:
    """Return when the day or month of this moment begins, and when the next one does."""
    place = zone(time_zone)
    first = wall_time(now, place).replace(hour=0, minute=0, second=0, microsecond=0)
    first = first if period == DAY else first.replace(day=1)
    following = first + timedelta(days=1) if period == DAY else (first + timedelta(days=32)).replace(day=1)
    return instant(first, place), instant(following, place)


def limited(calendars: Iterable[Calendar]) -> tuple[Cap, ...]:
    """Return the caps with an amount a day or a month, by name."""
    caps = (cap for calendar in calendars for cap in calendar.caps if cap.periods)
    return tuple(sorted(caps, key=lambda cap: cap.name))


# How a period ends.


class PeriodState(msgspec.Struct, frozen=True, kw_only=True):
    """One period of a cap at a moment; amounts in nano-dollars.

    Attributes:
        limit: The amount of the period.
        spent: What was spent since its start.
        hourly: What nodes cost an hour now.
        ends_at: When the next period begins.
        open_time: The part of the time until then in which calendars leave a NodePool of the cap open.
        allowed: What nodes may cost an hour.
    """

    cap: Cap
    period: str
    limit: int
    spent: int
    hourly: int
    ends_at: datetime
    open_time: timedelta
    allowed: int

    @property
    def forecast(self) -> int:
        """What the period costs in the end if what runs now runs on, in the hours of its NodePools."""
        return self.spent + _over(self.hourly, self.open_time)

    @property
    def percent(self) -> int:
        """The forecast in percent of the limit."""
        return self.forecast * 100 // max(1, self.limit)

    @property
    def engaged(self) -> tuple[CapAction, ...]:
        """The cap's actions whose percentage the forecast has reached."""
        return tuple(action for action in self.cap.actions if action.percent <= self.percent)

    @property
    def warned_at(self) -> int:
        """The highest percentage of an action that tells people, zero for none."""
        return max((action.percent for action in self.engaged if TELL in action.do), default=0)

    def sentence(self) -> str:
        """Return the spending in words."""
        spent, limit, hourly, forecast = (
            quantity.render(_cents(amount), quantity.HOURLY)
            for amount in (self.spent, self.limit, self.hourly, self.forecast)
        )
        return (
            f"${spent} of ${limit} a {self.period.lower()} are spent, what runs costs ${hourly} an hour, "
            f"so the {self.period.lower()} ends at ${forecast}; the next one begins at {self.ends_at:%Y-%m-%dT%H:%M:%SZ}"
        )


def _cents(amount: int) -> int:
    """Round an amount in nano-dollars to cents."""
    cent = quantity.NANODOLLARS // 100
    return (amount + cent // 2) // cent * cent


def _over(hourly: int, lasting: timedelta) -> int:
    """Return what an hourly price comes to in this time."""
    return hourly * (lasting // _MICROSECOND) // (_HOUR // _MICROSECOND)


def period_states(snapshot: Snapshot) -> tuple[PeriodState, ...]:
    """Return the periods of all caps as they are at the snapshot's time, by cap and period.

    What was spent is known from `snapshot.spending`, from then on at what ran then; in another period nothing is.
    """
    entries = {(entry.cap, entry.period): entry for entry in snapshot.spending}
    return tuple(
        _state(cap, period, calendar, entries.get((cap.name, period)), snapshot)
        for calendar in sorted(snapshot.calendars, key=lambda calendar: calendar.name)
        for cap in sorted(calendar.caps, key=lambda cap: cap.name)
        for period in sorted(cap.periods)
    )


def _state(cap: Cap, period: str, calendar: Calendar, entry: Spending | None, snapshot: Snapshot) -> PeriodState:
    now = snapshot.now
    start, end = bounds(period, cap.time_zone, now)
    hourly = entry.hourly if entry is not None else 0
    spent = 0
    if entry is not None and entry.since == start:
        later = max(timedelta(0), now - entry.at)
        spent = entry.spent + _over(hourly, later)
    pools = [pool for pool in snapshot.node_pools if is_for(calendar, pool)]
    until = now + (end - start if cap.ahead is None else cap.ahead)
    here = _open_time(pools, snapshot.calendars, now, min(end, until))
    allowed = _an_hour(max(0, cap.periods[period] - spent), here)
    if until > end:
        allowed = min(allowed, _an_hour(cap.periods[period], _open_time(pools, snapshot.calendars, end, until)))
    open_time = here if until >= end else _open_time(pools, snapshot.calendars, now, end)
    return PeriodState(
        cap=cap,
        period=period,
        limit=cap.periods[period],
        spent=spent,
        hourly=hourly,
        ends_at=end,
        open_time=open_time,
        allowed=_rounded_down(allowed),
    )


def _open_time(pools: Sequence[NodePool], calendars: Sequence[Calendar], now: datetime, end: datetime) -> timedelta:
    """Return how long the NodePool of these that calendars close least is open until then."""
    lasting = max(timedelta(0), end - now)
    if not pools or any(not closes(pool, calendars) for pool in pools):
        return lasting
    return max(
        sum(
            (
                period.until - period.since
                for period in periods(pool, calendars, now, end, at_most=CHANGES_MAX)
                if not period.pool.is_closed
            ),
            timedelta(0),
        )
        for pool in pools
    )


def _an_hour(amount: int, lasting: timedelta) -> int:
    """Return what an amount allows an hour for so long."""
    return amount * (_HOUR // _MICROSECOND) // (max(lasting, SHORTEST) // _MICROSECOND)


def _rounded_down(amount: int) -> int:
    step: int = 10 ** max(0, len(str(amount)) - DIGITS)
    return amount // step * step


def spending_of(snapshot: Snapshot, cap: str) -> str:
    """Return the spending of a cap in words: that of the period which allows least; empty for a cap without periods."""
    states = [state for state in period_states(snapshot) if state.cap.name == cap]
    return min(states, key=lambda state: (state.allowed, state.period)).sentence() if states else ""


# What periods mean for decisions.


def with_spending(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with what is left of days and months as caps in dollars an hour on its NodePools."""
    states = period_states(snapshot) if any(calendar.caps for calendar in snapshot.calendars) else ()
    if not states:
        return snapshot
    limits = {cap.name: dict(cap.limits) for calendar in snapshot.calendars for cap in calendar.caps}
    engaged: dict[str, frozenset[str]] = {}
    for state in states:
        limits[state.cap.name][quantity.HOURLY] = min(
            state.allowed, limits[state.cap.name].get(quantity.HOURLY, state.allowed)
        )
        actions = frozenset(name for action in state.engaged for name in action.do)
        engaged[state.cap.name] = engaged.get(state.cap.name, frozenset()) | actions
    saving = tuple(
        msgspec.structs.replace(
            state.cap, limits=limits[state.cap.name], engaged=tuple(sorted(engaged[state.cap.name]))
        )
        for state in states
    )
    pools = tuple(_limited_pool(pool, {cap.name: cap for cap in saving}) for pool in snapshot.node_pools)
    return msgspec.structs.replace(snapshot, node_pools=pools)


def _limited_pool(pool: NodePool, caps: Mapping[str, Cap]) -> NodePool:
    """Return the NodePool with the caps as they are now, where it has them."""
    shared = {name: caps[name].limits for name in sorted(pool.shared_limits) if name in caps}
    return msgspec.structs.replace(
        pool,
        shared_limits={**pool.shared_limits, **shared},
        caps=tuple(caps.get(cap.name, cap) for cap in pool.caps),
        saving_caps=tuple(
            caps[name]
            for name in sorted({*shared, *(cap.name for cap in pool.caps)} & caps.keys())
            if caps[name].engaged
        ),
    )


def holds_back(pool_caps: Iterable[Cap], pod: Pod) -> bool:
    """Whether a cap whose period ends too high lets nothing be bought for a pod that may wait."""
    return any(HOLD_BACK in cap.engaged and cap.selects(pod.namespace, pod.labels) for cap in pool_caps)


def buys_no_on_demand(pool_caps: Iterable[Cap], pod: Pod) -> Cap | None:
    """Return the cap whose period ends too high to buy on-demand capacity for a pod that may run on spot; None for none."""
    return next(
        (cap for cap in pool_caps if NO_ON_DEMAND_FALLBACK in cap.engaged and cap.selects(pod.namespace, pod.labels)),
        None,
    )
