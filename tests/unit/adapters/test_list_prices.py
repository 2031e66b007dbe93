"""The on-demand list prices that ship with the code."""

from __future__ import annotations

import pytest

from adapters.list_prices import listed_regions, price_list
from core.model.values.quantity import nanodollars
from simulator.market.embedded import builtin_shapes


@pytest.mark.parametrize(
    ("region", "name", "dollars"),
    [
        ("us-east-1", "m5.large", "0.096"),
        ("eu-west-1", "m6in.4xlarge", "1.24488"),
        ("ap-south-1", "m6in.12xlarge", "3.48192"),
        ("eu-central-1", "a1.metal", "0.466"),
        ("ap-southeast-2", "c3.8xlarge", "2.117"),
        ("sa-east-1", "m5.large", "0.153"),
        ("us-gov-west-1", "p5.48xlarge", "66.048"),
        ("us-gov-east-1", "m5.large", "0.121"),
        ("me-central-1", "m5.large", "0.118"),
    ],
)
def test_prices_are_those_that_other_lists_publish(region: str, name: str, dollars: str) -> None:
    """The figures are of lists that the table was not made from."""
    prices = price_list(region)
    assert prices is not None
    assert prices.prices(builtin_shapes())[name] == nanodollars(dollars)


def test_a_region_without_a_list_has_none() -> None:
    """Prices of another region look like its own."""
    assert price_list("us-iso-east-1") is None
    assert price_list("us-east") is None


def test_a_family_that_a_region_does_not_sell_has_no_price_there() -> None:
    """An invented price would let a plan count on what nobody sells."""
    prices = price_list("ap-southeast-4")
    assert prices is not None
    assert not [name for name in prices.prices(builtin_shapes()) if name.startswith("p5.")]


def test_regions_are_listed_once() -> None:
    """The second table of a region would be read by nobody."""
    assert len(set(listed_regions())) == len(listed_regions()) > 30
