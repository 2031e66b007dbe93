"""Kubernetes quantities and money as integers, exactly.

CPU counts in millicores, every other resource in its base unit (bytes, pods, devices). Money counts in nano-dollars per
hour: list prices have six decimals, spot shares and test catalogues up to nine.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, ROUND_HALF_EVEN, Decimal
from functools import lru_cache
from typing import Final

from core.errors import InvalidInputError

CPU: Final = "cpu"
MEMORY: Final = "memory"
PODS: Final = "pods"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
NODES: Final = "nodes"
NVIDIA_GPU: Final = "nvidia.com/gpu"

NANODOLLARS: Final = 10**9
MIB: Final = 2**20
PPM: Final = 10**6
"""Shares are in millionths."""

_SHAPE: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|([numkMGTPE]|[KMGTPE]i)?)\Z")
_LENGTH_MAX: Final = 64

AMOUNT_MAX: Final = 2**63 - 1
"""Kubernetes lowers larger amounts to this one, and takes them: `cpu: 1e17` is valid. Nothing stores or counts larger ones."""

_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BYTE_RESOURCES: Final = (MEMORY, EPHEMERAL_STORAGE)


@lru_cache(maxsize=65536)
def parse(text: str | float, resource: str = "") -> int:
    """Read a quantity in the unit of `resource`, rounding up as Kubernetes does: millicores for `cpu`, base units otherwise.

    An amount beyond `AMOUNT_MAX` in that unit is lowered to it.

    Raises:
        InvalidInputError: If the text is not a quantity.
    """
    written = str(text)
    match = _SHAPE.match(written.strip()) if len(written) <= _LENGTH_MAX else None
    if match is None:
        raise InvalidInputError(f"{written[:_LENGTH_MAX]!r} is not a quantity such as 500m, 2 or 1.5Gi")
    number, exponent, suffix = match.groups()
    value = Decimal(number + (exponent or ""))
    if suffix in _BINARY:
        value *= _BINARY[suffix]
    elif suffix:
        value = value.scaleb(_DECIMAL[suffix])
    if resource == CPU:
        value *= 1000
    return max(-AMOUNT_MAX, min(int(value.to_integral_value(rounding=ROUND_CEILING)), AMOUNT_MAX))


def render(amount: int, resource: str) -> str:
    """Format an amount for people: `1500m` or `2` for CPU, `Gi`/`Mi`/`Ki` where memory divides evenly."""
    if resource == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
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
