"""Sets of positions as integers."""

from __future__ import annotations

from itertools import compress

from hypothesis import given
from hypothesis import strategies as st

from core.scheduling.primitives.bit_set import bits, flags_of, positions


@given(st.sets(st.integers(0, 300)))
def test_positions_are_returned_in_order(members: set[int]) -> None:
    """Otherwise, ties between types are broken by chance."""
    assert list(positions(bits(members))) == sorted(members)


@given(st.sets(st.integers(0, 40)), st.integers(41, 60))
def test_flags_select_the_members(members: set[int], length: int) -> None:
    """Otherwise, a claim names the wrong types."""
    assert list(compress(range(length), flags_of(bits(members), length))) == sorted(members)
