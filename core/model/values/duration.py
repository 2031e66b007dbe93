"""Parses Go durations, in which Kubernetes objects express spans of time."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

MICROSECOND: Final = timedelta(microseconds=1)
HOUR: Final = timedelta(hours=1)
MICROSECONDS_PER_HOUR: Final = HOUR // MICROSECOND
"""Prices are per hour; spans are counted in whole microseconds, so that costs stay integers."""

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_SECONDS_MAX: Final = 2**63 / 1e9
"""Go counts nanoseconds in 64 bits, some 292 years; a moment that far in the future can still be written."""

_DIGITS: Final = frozenset("0123456789.")


def parse_duration(text: str) -> timedelta | None:
    """Parse a Go duration such as `1h30m`; None if it is invalid or too long for Go. A bare `0` is zero."""
    if text == "0":
        return timedelta(0)
    sign, rest, total = (-1, text[1:], 0.0) if text.startswith("-") else (1, text.removeprefix("+"), 0.0)
    position = 0
    while position < len(rest):
        end = position
        while end < len(rest) and rest[end] in _DIGITS:
            end += 1
        unit = next((u for u in ("ms", "us", "µs", "ns", "h", "m", "s") if rest.startswith(u, end)), None)
        number = rest[position:end]
        if unit is None or number in ("", ".") or number.count(".") > 1:
            return None
        total += float(number) * _UNITS[unit]
        position = end + len(unit)
    return timedelta(seconds=sign * total) if rest and total < _SECONDS_MAX else None
