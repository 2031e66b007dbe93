"""Settings that contradict each other would make a program that is never small enough."""

from __future__ import annotations

from itertools import pairwise

from core.packing.target import target_settings as settings


def test_sizes_are_told_apart_ever_more_coarsely() -> None:
    """The first step that keeps within CELLS_MAX is taken, so the finest comes first."""
    assert all(finer > coarser for finer, coarser in pairwise(settings.STEPS_PER_DOUBLING))


def test_gaps_are_filled_by_what_is_most_like_them_first() -> None:
    assert all(1 >= first > second > 0 for first, second in pairwise(settings.GAPS))


def test_no_more_than_a_whole_node_is_filled() -> None:
    assert 0 < settings.FILL < 1
