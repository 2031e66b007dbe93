"""Formats dollars for people: per hour, per month, next to a proven minimum."""

from __future__ import annotations

from typing import Final

HOURS_A_MONTH: Final = 730
"""As on AWS's price pages: 8,760 hours a year in twelve months."""

_OTHER_CURRENCIES: Final = (("cn-", "yuan"), ("eusc-", "euros"))
"""Begin of a region's name → the currency of AWS's prices there."""

_PROVEN: Final = 0.0005
"""Share of the cost below which a plan counts as the proven minimum: prices have four digits."""


_TOO_LOW: Final = 0.1
"""A bound below this share of the cost is not shown: it is low only because reserved places cost nearly nothing."""


def a_month(hourly: float) -> float:
    """Return dollars a month for a price per hour."""
    return hourly * HOURS_A_MONTH


def amount(value: float) -> float:
    """Return dollars, or a share of them, with the six digits of answers."""
    return round(value, 6)


def cents(monthly: float) -> float:
    """Return dollars a month with the two digits of answers."""
    return round(monthly, 2)


def hours(value: float) -> float:
    """Return hours with the four digits of answers."""
    return round(value, 4)


def share(part: float, whole: float) -> float | None:
    """Return a part of a whole; None if the whole is zero."""
    return amount(part / whole) if whole else None


def other_currency(region: str) -> str:
    """Return the currency of AWS's prices in a region, empty for dollars."""
    return next((name for prefix, name in _OTHER_CURRENCIES if region.startswith(prefix)), "")


def rate(hourly: float) -> str:
    """Return a price as `$0.2295 an hour, $168 a month`."""
    return f"${hourly:,.4f} an hour, ${a_month(hourly):,.0f} a month"


def distance(hourly: float, lower_bound: float | None) -> str:
    """Return how far a cost is from the proven minimum, as a part of a sentence; empty without a useful bound."""
    if lower_bound is None or lower_bound < hourly * _TOO_LOW or not hourly:
        return ""
    if (hourly - lower_bound) / hourly <= _PROVEN:
        return "proven to be the minimum"
    return f"{hourly / lower_bound - 1:.1%} above the proven minimum of ${lower_bound:,.4f} an hour"
