"""Expresses the openings and closings of budget windows, at which disruption may begin or end, for EventBridge Scheduler.

EventBridge's cron has six fields, requires `?` in one of its day fields, and names weekdays; times are UTC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from core.calendars import boundaries
from core.cron import WEEKDAYS, Schedule, Values
from core.errors import InvalidInputError
from core.model.node_pool import NodePool
from core.model.snapshot import Snapshot

PROLONGED_MAX: Final = 1500
"""The most starts that prolong one window: one each minute for a day. The end of a longer window is found when it is nearer."""

_MINUTE: Final = timedelta(minutes=1)
_MINUTES_A_DAY: Final = 24 * 60


CALENDAR_AHEAD: Final = timedelta(days=2)
"""How far ahead calendars' boundaries become schedules; `reconcile` renews them every few minutes."""

CALENDAR_SCHEDULES_MAX: Final = 50
"""The most schedules of calendars: the nearest boundaries."""


def all_schedules(snapshot: Snapshot) -> Mapping[str, str]:
    """Return the schedules of budget windows, and one `at(…)` in UTC for each of the next boundaries of calendars.

    A recurring schedule in the rule's zone could express neither excepted dates nor lead times, and EventBridge Scheduler
    leaves out a local time that does not exist. A moment is right whatever the zone's clocks do.
    """
    moments = boundaries(snapshot, snapshot.now + CALENDAR_AHEAD, at_most=CALENDAR_SCHEDULES_MAX)
    schedules = dict(window_schedules(snapshot.node_pools, snapshot.now))
    for moment in moments:
        whole = moment if not moment.microsecond else moment + timedelta(seconds=1)
        expression = f"at({whole:%Y-%m-%dT%H:%M:%S})"
        schedules[_name(expression)] = expression
    return schedules


def window_schedules(node_pools: Iterable[NodePool], now: datetime) -> Mapping[str, str]:
    """Return name → expression for every moment at which a window opens or closes; names follow from the expressions alone.

    A window's end recurs like its start, shifted by the duration, if cron can express that. If not (the shift crosses a day
    that the schedule restricts), the end of the window that is open or opens next is a single `at(...)`; call again after it.
    Unreadable budgets have no windows: their pools are closed.
    """
    expressions: set[str] = set()
    for pool in node_pools:
        for budget in pool.disruption.budgets:
            if budget.schedule is None or budget.duration is None:
                continue
            try:
                schedule = Schedule.parse(budget.schedule)
            except InvalidInputError:
                continue
            expressions.update(_expressions(schedule, timedelta(0), now))
            expressions.update(_expressions(schedule, budget.duration, now))
    return {_name(expression): expression for expression in sorted(expressions)}


def _name(expression: str) -> str:
    return f"budget-window-{hashlib.sha256(expression.encode()).hexdigest()[:24]}"


def _expressions(schedule: Schedule, shift: timedelta, now: datetime) -> Iterator[str]:
    """Return the schedule's moments, each later by `shift`."""
    times = _shifted_times(schedule, shift)
    picks_dates = schedule.days is not None or schedule.months is not None
    if shift % _MINUTE or (picks_dates and any(days for days, _, _ in times)):
        yield from _next_end(schedule, shift, now)
        return
    months = _listed(schedule.months)
    for days, minutes, hours in times:
        time = f"{_listed(minutes)} {_listed(hours)}"
        if schedule.days is not None or schedule.weekdays is None:
            yield f"cron({time} {_listed(schedule.days)} {months} ? *)"
        if schedule.weekdays is not None:
            weekdays = sorted((weekday + days) % 7 for weekday in schedule.weekdays)
            yield f"cron({time} ? {months} {','.join(WEEKDAYS[weekday].upper() for weekday in weekdays)} *)"


def _shifted_times(schedule: Schedule, shift: timedelta) -> list[tuple[int, Values, Values]]:
    """Return the times of day later by `shift`, in as few groups (days carried, minutes, hours) as lists can express."""
    later = shift // _MINUTE
    is_daily = schedule.days is None and schedule.months is None and schedule.weekdays is None
    if is_daily and schedule.hours is None and later % 60 == 0:
        return [(0, schedule.minutes, None)]
    hours_by_minute: dict[tuple[int, int], list[int]] = {}
    for hour in range(24) if schedule.hours is None else schedule.hours:
        for minute in range(60) if schedule.minutes is None else schedule.minutes:
            days, rest = divmod(hour * 60 + minute + later, _MINUTES_A_DAY)
            hours_by_minute.setdefault((0 if is_daily else days, rest % 60), []).append(rest // 60)
    minutes_by_hours: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for (days, minute), hours in sorted(hours_by_minute.items()):
        minutes_by_hours.setdefault((days, tuple(sorted(set(hours)))), []).append(minute)
    return [(days, tuple(minutes), hours) for (days, hours), minutes in sorted(minutes_by_hours.items())]


def _next_end(schedule: Schedule, shift: timedelta, now: datetime) -> Iterator[str]:
    """Return when the window that is open or opens next ends: a start before its end prolongs it."""
    start = schedule.next_after(now - shift)
    if start is None:
        return
    for _ in range(PROLONGED_MAX):
        later = schedule.next_after(start)
        if later is None or later - start > shift:
            break
        start = later
    yield f"at({start + shift:%Y-%m-%dT%H:%M:%S})"


def _listed(values: Values) -> str:
    """Return the values in cron notation, runs of three and more as ranges: EventBridge limits expressions to 256 signs."""
    if values is None:
        return "*"
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ",".join(map(str, run)) for run in runs)
