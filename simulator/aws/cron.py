"""EventBridge's schedule expressions: `cron(…)` with its six fields, `at(…)`, `rate(…)`; times are UTC."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Final

from cronsim import CronSim, CronSimError

_UNITS: Final = {"minute": 60, "hour": 3600, "day": 86400}
_WEEKDAY: Final = re.compile(r"(?<![#\d])\d")


def next_fire(expression: str, after: datetime) -> datetime | None:
    """Return when the schedule next fires, strictly after `after`; None if never.

    Raises:
        ValueError: If EventBridge Scheduler would refuse the expression.
    """
    match = re.fullmatch(r"(cron|at|rate)\((.*)\)", expression.strip())
    if match is None:
        raise ValueError(f"{expression!r} is not cron(…), at(…) or rate(…)")
    kind, inner = match.groups()
    if kind == "at":
        moment = datetime.fromisoformat(inner).replace(tzinfo=UTC)
        return moment if moment > after else None
    if kind == "rate":
        number, unit = inner.split()
        return after + timedelta(seconds=int(number) * _UNITS[unit.rstrip("s")])
    return _next_cron(inner, after)


def _next_cron(fields: str, after: datetime) -> datetime | None:
    parts = fields.split()
    if len(parts) != 6:
        raise ValueError(f"cron({fields}) has {len(parts)} fields, not six")
    minute, hour, day, month, weekday, years = parts
    # EventBridge counts Sunday as 1, cron as 0, and wants `?` in one of the two day fields.
    weekday = _WEEKDAY.sub(lambda digit: str(int(digit.group()) - 1), weekday)
    five = [part.replace("?", "*") for part in (minute, hour, day, month, weekday)]
    try:
        found = next(CronSim(" ".join(five), after))
    except CronSimError as error:
        raise ValueError(f"cron({fields}): {error}") from error
    except StopIteration:
        return None
    return found if years == "*" or str(found.year) in years.split(",") else None
