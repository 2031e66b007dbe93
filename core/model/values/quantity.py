"""Kubernetes quantities and money as integers, exactly.

CPU counts in millicores, every other resource in its base unit (bytes, pods, devices). Money counts in nano-dollars per
hour: list prices have six decimals, spot shares and test catalogues up to nine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Final

from core.errors import InvalidInputError

# Parses Go durations, in which Kubernetes objects express spans of time.


MICROSECOND: Final = timedelta(microseconds=1)
HOUR: Final = timedelta(hours=1)
MICROSECONDS_PER_HOUR: Final = HOUR // MICROSECOND
"""Prices are per hour; spans are counted in whole microseconds, so that costs stay integers."""

_UNITS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_SECONDS_MAX: Final = 2**63 / 1e9
"""Go counts nanoseconds in 64 bits, some 292 years; a moment that far in the future can still be written."""

MOMENT_MIN: Final = datetime(1000, 1, 1, tzinfo=UTC)
MOMENT_MAX: Final = datetime(9000, 1, 1, tzinfo=UTC)
"""Moments of objects are kept between these, so that every span may be added to one: Python's calendar ends with year 9999."""

_DIGITS: Final = frozenset("0123456789.")


def in_calendar(moment: datetime) -> datetime:
    """Return the moment, or the first or last one that is calculated with."""
    return min(MOMENT_MAX, max(MOMENT_MIN, moment))


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


CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
NODES: Final = "nodes"
HOURLY: Final = "fleetwright.dev/dollars-per-hour"
"""Resource of NodePools' limits alone: what their nodes cost by the catalogue, in nano-dollars."""

NVIDIA_GPU: Final = "nvidia.com/gpu"

NANODOLLARS: Final = 10**9
MIB: Final = 2**20
PPM: Final = 10**6
"""Shares are in millionths."""

_SHAPE: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)\Z")
LENGTH_MAX: Final = 64
"""Longer texts are no amounts."""

AMOUNT_MAX: Final = 2**63 - 1
"""Kubernetes lowers larger amounts to this one, and takes them: `cpu: 1e17` is valid. Nothing stores or counts larger ones."""

_DIGITS_READ: Final = 20
"""A number of so many digits is beyond `AMOUNT_MAX`."""

_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BYTE_RESOURCES: Final = (MEMORY, EPHEMERAL_STORAGE)


@lru_cache(maxsize=65536)
def parse(text: str | float, resource: str = "") -> int:
    """Read a quantity in the unit of `resource`, rounding up as Kubernetes does: millicores for `cpu`, base units otherwise.

    `HOURLY` is in nano-dollars.
    An amount beyond `AMOUNT_MAX` in that unit is lowered to it.

    Raises:
        InvalidInputError: If the text is not a quantity.
    """
    written = str(text)
    match = _SHAPE.match(written.strip()) if len(written) <= LENGTH_MAX else None
    if match is None:
        raise InvalidInputError(f"{written[:LENGTH_MAX]!r} is not a quantity such as 500m, 2 or 1.5Gi")
    number, exponent, suffix = match.groups()
    value = Decimal(number + (exponent or ""))
    if suffix in _BINARY:
        value *= _BINARY[suffix]
    elif suffix:
        value = value.scaleb(_DECIMAL[suffix])
    if resource == CPU:
        value *= 1000
    elif resource == HOURLY:
        value *= NANODOLLARS
    return max(-AMOUNT_MAX, min(int(value.to_integral_value(rounding=ROUND_CEILING)), AMOUNT_MAX))


def whole_number(text: str) -> int | None:
    """Read decimal digits, however many; None for any other text.

    Python itself refuses to read more than 4,300. A number of more than 20 is lowered to some number beyond `AMOUNT_MAX`.
    """
    if not (text.isascii() and text.isdecimal()):
        return None
    return int(text.lstrip("0")[:_DIGITS_READ] or 0)


def render(amount: int, resource: str) -> str:
    """Format an amount for people: `1500m` or `2` for CPU, `Gi`/`Mi`/`Ki` where memory divides evenly."""
    if resource == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if resource == HOURLY:
        return f"{(Decimal(amount) / NANODOLLARS).normalize():f}"
    if resource in _BYTE_RESOURCES or resource.startswith("hugepages-"):
        for suffix in ("Ti", "Gi", "Mi", "Ki"):
            if amount and amount % _BINARY[suffix] == 0:
                return f"{amount // _BINARY[suffix]}{suffix}"
    return str(amount)


def nanodollars(dollars: str | float) -> int:
    """Convert dollars such as 0.0425 to whole nano-dollars, rounded half to even.

    Raises:
        InvalidInputError: If the value is not a decimal number.
    """
    try:
        return int((Decimal(str(dollars)) * NANODOLLARS).to_integral_value(rounding=ROUND_HALF_EVEN))
    except (ArithmeticError, ValueError) as error:  # not a number raises ValueError, infinity OverflowError
        raise InvalidInputError(f"{dollars!r} is not an amount of dollars") from error


def dollars(amount: int) -> float:
    """Return nano-dollars as dollars, for printing only: decisions never see floats."""
    return amount / NANODOLLARS


# Resource vectors: a mapping from resource name to a whole amount in the units of `core.model.values.quantity`.
#
# A name that is missing counts as zero. Results are plain dictionaries; arguments are never changed.


Resources = Mapping[str, int]


def parse_resources(raw: Mapping[str, object] | None, *, field: str = "") -> dict[str, int]:
    """Read a Kubernetes ResourceList.

    Raises:
        InvalidInputError: If an amount is not a quantity or is negative; the field path names the resource.
    """
    result: dict[str, int] = {}
    for name, text in (raw or {}).items():
        where = f"{field}.{name}" if field else name
        if isinstance(text, bool) or not isinstance(text, str | int | float):
            raise InvalidInputError(f"{text!r} is not a quantity", field=where)
        try:
            amount = parse(text, name)
        except InvalidInputError as error:
            raise InvalidInputError(error.problem, field=where) from error
        if amount < 0:
            raise InvalidInputError(f"{text!r} is negative", field=where)
        result[name] = amount
    return result


def render_resources(resources: Resources) -> dict[str, str]:
    """Format a ResourceList, names in order."""
    return {name: render(resources[name], name) for name in sorted(resources)}


def add(*vectors: Resources) -> dict[str, int]:
    """Return the sum for each name."""
    total: dict[str, int] = {}
    for vector in vectors:
        for name, amount in vector.items():
            total[name] = total.get(name, 0) + amount
    return total


def subtract(minuend: Resources, subtrahend: Resources) -> dict[str, int]:
    """Return `minuend - subtrahend`, which may be negative."""
    result = dict(minuend)
    for name, amount in subtrahend.items():
        result[name] = result.get(name, 0) - amount
    return result


def maximum(vectors: Iterable[Resources]) -> dict[str, int]:
    """Return the largest amount for each name."""
    result: dict[str, int] = {}
    for vector in vectors:
        for name, amount in vector.items():
            if amount > result.get(name, 0) or name not in result:
                result[name] = amount
    return result


def fits(requested: Resources, available: Resources) -> bool:
    """Whether `available` covers `requested`.

    As in Karpenter: a negative amount in `available` refuses everything, requested or not; a request of zero of an unknown
    resource is fine.
    """
    if any(amount < 0 for amount in available.values()):
        return False
    return all(amount <= available.get(name, 0) for name, amount in requested.items())
