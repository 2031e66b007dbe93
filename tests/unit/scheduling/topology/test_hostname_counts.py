"""Pods of a topology group on each new node."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from core.scheduling.primitives.bit_set import bits
from core.scheduling.topology.hostname_counts import HostnameCounts

HIGHEST = 3
CHANGES = st.lists(st.tuples(st.integers(0, 4), st.integers(-2, 5)), max_size=12)


@given(CHANGES)
def test_claims_are_found_by_the_pods_that_they_have(changes: list[tuple[int, int]]) -> None:
    """Otherwise, a rule puts a pod onto a node that has as many as it may, or refuses one that has room."""
    counts, expected = HostnameCounts(HIGHEST), Counter[int]()
    for claim, change in changes:
        times = max(change, -expected[claim])  # pods are only taken out of where they were counted
        counts.add(claim, times)
        expected[claim] += times
    for count in range(1, HIGHEST + 1):
        assert counts.with_at_least(count) == bits(claim for claim, pods in expected.items() if pods >= count)
    assert counts.total == expected.total()


def test_a_copy_is_independent() -> None:
    """A plan that is tried and dropped must leave the counts of the one that is kept."""
    counts = HostnameCounts(HIGHEST)
    counts.add(0, 1)
    other = counts.copy()
    other.add(0, 1)
    assert (counts.total, other.total) == (1, 2)
    assert (counts.with_at_least(2), other.with_at_least(2)) == (0, 1)
