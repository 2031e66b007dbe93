"""How far a cost is from what is proven."""

from __future__ import annotations

import pytest

from cli.answers.money import distance


@pytest.mark.parametrize(
    ("lower_bound", "told"),
    [
        (None, ""),
        (2.0, "which is the proven minimum"),
        (1.6, "the proven minimum is $1.6000 an hour, 25.0% above it"),
        (0.0000001, ""),
        (0.0, ""),
    ],
)
def test_only_a_bound_that_says_something_is_shown(lower_bound: float | None, told: str) -> None:
    """With a capacity reservation a plan was told to be 238596457.9% above its minimum."""
    assert distance(2.0, lower_bound) == told
