"""Cron schedules of disruption budgets: five fields or a macro, in UTC.

The dialect is that of the Go library which Karpenter uses: `?` is `*`, `5/15` runs to the end of the field, weekdays are 0
to 6, and a star with a step is a plain list (so it no longer makes the day fields restrict each other). A superfluous comma, a
range that begins with a star and a plus sign before a number are read as the library reads them. Seconds, `L`, `#`, time zones
and `@every` are refused, as NodePools refuse them.
"""

from __future__ import annotations

from copy import copy
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

import msgspec
from cronsim import CronSim, CronSimError

from core.errors import InvalidInputError

MACROS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_SCHEDULES_KEPT: Final = 512
"""Size of the cache of parsed schedules: budgets are evaluated in each pass, and a fleet has some dozens."""

WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


class _Field(msgspec.Struct, frozen=True):
    name: str
    low: int
    high: int
    names: tuple[str, ...] = ()


_FIELDS: Final = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS),
    _Field("day of week", 0, 6, WEEKDAYS),
)

Values = tuple[int, ...] | None
"""Allowed values of a field, in order; None for a star, which allows all."""


class Schedule(msgspec.Struct, frozen=True):
    """A parsed schedule. Where both day fields are restricted, either may match."""

    minutes: Values
    hours: Values
    days: Values
    months: Values
    weekdays: Values

    @classmethod
    def parse(cls, text: str) -> Schedule:
        """Read a schedule.

        Raises:
            InvalidInputError: If it is not a schedule, or never occurs.
        """
        return _parsed(text)

    @classmethod
    def read(cls, text: str) -> Schedule:
        """Read a schedule that need not ever occur: a CronJob may have one.

        Raises:
            InvalidInputError: If it is not a schedule.
        """
        return _read(text)

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first start strictly after `moment` (UTC), None if there is none within cronsim's fifty years."""
        iterator = copy(_iterator(self))
        iterator.dt = moment.replace(microsecond=0)
        return next(iterator, None)

    def expression(self) -> str:
        """Return the schedule in cronsim's dialect."""
        parts = (self.minutes, self.hours, self.days, self.months, self.weekdays)
        return " ".join("*" if values is None else ",".join(map(str, values)) for values in parts)


@lru_cache(_SCHEDULES_KEPT)
def _parsed(text: str) -> Schedule:
    schedule = _read(text)
    try:
        _iterator(schedule)
    except CronSimError as error:
        raise InvalidInputError(f"{text!r} never occurs") from error
    return schedule


def _read(text: str) -> Schedule:
    fields = MACROS.get(text, text).split()
    if text.startswith("@") and text not in MACROS:
        raise InvalidInputError(f"unknown macro {text!r}, use one of {', '.join(MACROS)}")
    if len(fields) != len(_FIELDS):
        raise InvalidInputError(f"{text!r} has {len(fields)} fields, not minute, hour, day, month and weekday")
    return Schedule(*(_values(part, field) for part, field in zip(fields, _FIELDS, strict=True)))


@lru_cache(_SCHEDULES_KEPT)
def _iterator(schedule: Schedule) -> CronSim:
    """Return the schedule's iterator, for callers to copy: cronsim parses ten times as long as it finds the next start."""
    return CronSim(schedule.expression(), datetime(2000, 1, 1, tzinfo=UTC))


def _values(text: str, field: _Field) -> Values:
    allowed: set[int] = set()
    has_star = False
    parts = [part for part in text.split(",") if part]
    if not parts:
        raise InvalidInputError(f"{text!r} in the {field.name} has no value")
    for part in parts:
        values, is_star = _range(part, field)
        allowed.update(values)
        has_star = has_star or is_star
    return None if has_star else tuple(sorted(allowed))


def _range(text: str, field: _Field) -> tuple[range, bool]:
    span, slash, step_text = text.partition("/")
    step = _number(step_text, field, ()) if slash else 1
    if step < 1:
        raise InvalidInputError(f"{text!r} in the {field.name} has no step")
    first, dash, last = span.partition("-")
    if first in ("*", "?"):
        return range(field.low, field.high + 1, step), step == 1
    low = _number(first, field, field.names)
    high = _number(last, field, field.names) if dash else field.high if slash else low
    if not field.low <= low <= high <= field.high:
        raise InvalidInputError(f"{text!r} in the {field.name} is not a range within {field.low} to {field.high}")
    return range(low, high + 1, step), False


_DIGITS_READ: Final = 4
"""A number of so many digits is beyond every field. Python itself reads no more than 4,300."""


def _number(text: str, field: _Field, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + field.low
    digits = text.removeprefix("+")
    if not (digits.isascii() and digits.isdigit()):
        raise InvalidInputError(f"{text!r} in the {field.name} is not a number")
    return int(digits.lstrip("0")[:_DIGITS_READ] or 0)
