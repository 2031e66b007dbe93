"""Amounts against bounds, for all positions at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from core.scheduling.primitives.bit_set import bits
from core.scheduling.primitives.handles import TypeMask
from core.scheduling.primitives.threshold_index import ThresholdIndex

AMOUNTS = st.lists(st.integers(-3, 9), max_size=12)


@given(AMOUNTS, st.integers(-5, 11))
def test_a_bound_is_met_by_the_positions_that_a_comparison_finds(amounts: list[int], bound: int) -> None:
    """Otherwise, a claim keeps types without room, or loses types that have it."""
    index = ThresholdIndex(amounts)
    assert index.at_least(bound) == bits(i for i, amount in enumerate(amounts) if amount >= bound)
    assert index.at_most(bound) == bits(i for i, amount in enumerate(amounts) if amount <= bound)


@given(st.lists(st.integers(0, 9), max_size=12), st.sets(st.integers(0, 15)))
def test_the_largest_amount_is_that_of_the_mask(amounts: list[int], members: set[int]) -> None:
    """A NodePool's limit is charged with it: too little, and the limit is exceeded."""
    expected = max((amount for i, amount in enumerate(amounts) if i in members), default=0)
    assert ThresholdIndex(amounts).largest(TypeMask(bits(members))) == expected
