"""Which types are sold in which zones, and at which prices."""

from __future__ import annotations

import msgspec

from tests.unit.catalogue.one_type import (
    MARKET,
    offered,
)


def test_spot_is_sold_only_where_it_has_a_price() -> None:
    """Otherwise, a launch is planned at a price that does not exist."""
    assert offered(MARKET) == [
        ("a", "on-demand", 96_000_000, True),
        ("a", "spot", 30_000_000, True),
        ("b", "on-demand", 96_000_000, True),
    ]


def test_before_the_first_spot_prices_the_on_demand_price_is_used() -> None:
    """Otherwise, a new installation cannot launch spot at all."""
    assert ("b", "spot", 96_000_000, True) in offered(msgspec.structs.replace(MARKET, spot=None))
