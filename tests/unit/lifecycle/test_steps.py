"""How soon something is tried again."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.lifecycle.steps import LONGEST, SHORTEST, recheck_after
from tests.builders import NOW


@pytest.mark.parametrize(
    ("waited", "expected"),
    [
        (-5, SHORTEST),
        (0, SHORTEST),
        (20, SHORTEST),
        (100, timedelta(seconds=10)),
        (109, timedelta(seconds=10)),
        (9999, LONGEST),
    ],
)
def test_a_tenth_of_the_elapsed_time(waited: int, expected: timedelta) -> None:
    """Within bounds, even where clocks disagree."""
    assert recheck_after(NOW - timedelta(seconds=waited), NOW) == expected
