"""Amounts in the document of price terms."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from core.errors import InvalidInputError
from core.model.values import quantity
from core.model.values.quantity import PPM

PERCENT_MAX: Final = 100


def nanodollars(amount: Decimal, field: str) -> int:
    """Return dollars as nano-dollars. Raises InvalidInputError if they are negative or not a number."""
    if not amount.is_finite() or amount < 0:
        raise InvalidInputError(f"{amount} is not an amount of dollars, 0 or more", field=field)
    return quantity.nanodollars(str(amount))


def share(percent: Decimal, field: str) -> int:
    """Return a percentage in millionths. Raises InvalidInputError unless it is from 0 to 100."""
    if not percent.is_finite() or not 0 <= percent <= PERCENT_MAX:
        raise InvalidInputError(f"{percent} is not a percentage from 0 to {PERCENT_MAX}", field=field)
    return int(percent * (PPM // PERCENT_MAX))
