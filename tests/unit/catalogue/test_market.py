"""What is for sale, where and for how much."""

from __future__ import annotations

import msgspec

from tests.unit.catalogue.one_type import (
    MARKET,
    offered,
)


def test_spot_is_sold_only_where_it_has_a_price() -> None:
    """Without this a launch is planned at a price that nobody asks."""
    assert offered(MARKET) == [
        ("a", "on-demand", 96_000_000, True),
        ("a", "spot", 30_000_000, True),
        ("b", "on-demand", 96_000_000, True),
    ]


def test_before_the_first_spot_prices_on_demand_stands_in() -> None:
    """A fresh installation could launch no spot at all."""
    assert ("b", "spot", 96_000_000, True) in offered(msgspec.structs.replace(MARKET, spot=None))
