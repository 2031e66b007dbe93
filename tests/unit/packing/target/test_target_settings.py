"""Settings are consistent, so that the program can always be made small enough."""

from __future__ import annotations

from itertools import pairwise

from core.packing.target import target_settings as settings


def test_size_classes_get_coarser_step_by_step() -> None:
    """The first step within CELLS_MAX is used, so the finest comes first."""
    assert all(finer > coarser for finer, coarser in pairwise(settings.STEPS_PER_DOUBLING))


def test_gaps_are_filled_with_the_most_similar_items_first() -> None:
    assert all(1 >= first > second > 0 for first, second in pairwise(settings.GAPS))


def test_at_most_a_whole_node_is_filled() -> None:
    assert 0 < settings.FILL < 1
