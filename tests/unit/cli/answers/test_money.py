"""What a cost is an hour and a month, and how far it is from what is proven."""

from __future__ import annotations

import pytest

from cli.answers import money
from cli.answers.money import a_month, distance, rate


@pytest.mark.parametrize(
    ("lower_bound", "told"),
    [
        (None, ""),
        (2.0, "proven to be the minimum"),
        (1.6, "25.0% above the proven minimum of $1.6000 an hour"),
        (0.0000001, ""),
        (0.0, ""),
        (0.2, "900.0% above the proven minimum of $0.2000 an hour"),
        (0.1999, ""),
        (1.999, "proven to be the minimum"),
        (1.9989, "0.1% above the proven minimum of $1.9989 an hour"),
    ],
)
def test_only_a_bound_that_says_something_is_shown(lower_bound: float | None, told: str) -> None:
    """With a capacity reservation a plan was told to be 238596457.9% above its minimum."""
    assert distance(2.0, lower_bound) == told


def test_a_month_has_the_hours_of_awss_price_pages() -> None:
    assert a_month(0.1) == pytest.approx(73.0)
    assert rate(0.2295) == "$0.2295 an hour, $168 a month"
    assert rate(1234.5) == "$1,234.5000 an hour, $901,185 a month"


def test_what_costs_nothing_is_not_compared() -> None:
    assert distance(0.0, 0.0) == ""


def test_answers_have_dollars_to_six_digits_a_month_to_cents_and_hours_to_four() -> None:
    third = 1 / 3
    assert (money.amount(third), money.cents(third), money.hours(third)) == (0.333333, 0.33, 0.3333)
    assert (money.share(1, 3), money.share(1, 0)) == (0.333333, None)


def test_a_plan_is_the_proven_minimum_to_the_digits_of_a_price() -> None:
    assert distance(2000.0, 1999.0) == "proven to be the minimum"
    assert distance(2000.0, 1998.99) == "0.1% above the proven minimum of $1,998.9900 an hour"
