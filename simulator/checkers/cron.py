"""Computes when a budget's window is open, by cron in UTC as Kubernetes projects read it: the judges' own implementation.

An expression has five fields, or is a macro such as `@daily`. A day must match both day fields; if neither starts with a plain
star (`*/2` is not plain), either is enough.
"""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from functools import lru_cache
from typing import Final

import msgspec

_MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_BOUNDS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_NAMES: Final = {name: number for number, name in enumerate(_MONTHS, start=1)} | {
    name: number for number, name in enumerate(_WEEKDAYS)
}


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A cron expression as the values that each field allows."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool

    def has_day(self, day: datetime) -> bool:
        """Whether it fires at all on this day."""
        if day.month not in self.months:
            return False
        by_day = day.day in self.days
        by_weekday = (day.weekday() + 1) % 7 in self.weekdays
        return by_day and by_weekday if self.any_day or self.any_weekday else by_day or by_weekday


@lru_cache(maxsize=256)
def read(expression: str) -> Schedule:
    """Read an expression.

    Raises:
        ValueError: If the expression is invalid.
    """
    fields = _MACROS.get(expression.strip().lower(), expression).lower().split()
    if len(fields) != len(_BOUNDS):
        raise ValueError(f"{expression!r} has {len(fields)} fields, not five")
    sets = [_values(field, *bounds) for field, bounds in zip(fields, _BOUNDS, strict=True)]
    return Schedule(
        minutes=sets[0],
        hours=sets[1],
        days=sets[2],
        months=sets[3],
        weekdays=frozenset(value % 7 for value in sets[4]),
        any_day=fields[2] in ("*", "?"),
        any_weekday=fields[4] in ("*", "?"),
    )


@lru_cache(maxsize=65536)
def is_open(expression: str, lasting: timedelta, now: datetime) -> bool:
    """Whether the schedule fired within the last `lasting`, the present moment included."""
    schedule = read(expression)
    opens_after = now - lasting
    day = datetime.combine(now.date(), time(), UTC)
    while day + timedelta(days=1) > opens_after:
        if schedule.has_day(day):
            for hour in sorted(schedule.hours, reverse=True):
                for minute in sorted(schedule.minutes, reverse=True):
                    fired = day + timedelta(hours=hour, minutes=minute)
                    if opens_after < fired <= now:
                        return True
        day -= timedelta(days=1)
    return False


def _values(field: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span in ("*", "?"):
            first, last = low, high
        elif "-" in span:
            first, last = (_number(end) for end in span.split("-", 1))
        else:
            first = _number(span)
            last = high if step else first
        if not low <= first <= last <= high:
            raise ValueError(f"{part!r} is outside {low}-{high}")
        found.update(range(first, last + 1, int(step or 1)))
    return frozenset(found)


def _number(text: str) -> int:
    return _NAMES[text] if text in _NAMES else int(text)
