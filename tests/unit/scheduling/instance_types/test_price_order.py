"""Any set of types by price."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.scheduling.instance_types.price_order import PriceOrder
from core.scheduling.primitives.bit_set import bits


@given(st.dictionaries(st.integers(0, 11), st.integers(1, 5)), st.sets(st.integers(0, 11)))
def test_a_set_is_listed_in_the_order_of_sorting_it(prices: dict[int, int], members: set[int]) -> None:
    """Otherwise, the launch begins with a more expensive type."""
    order = PriceOrder(prices, 12)
    expected = sorted((price, position) for position, price in prices.items() if position in members)
    assert list(order.among(bits(members))) == expected
    assert list(order.positions_among(bits(members))) == [position for _, position in expected]
