"""The annotation that protects a node or pod from disruption."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.model.values.protection import is_protected, protected_until
from tests.builders import NOW

HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("text", "age", "holds"),
    [
        (None, HOUR, False),
        ("true", 1000 * HOUR, True),
        ("4h", 4 * HOUR - timedelta(seconds=1), True),
        ("4h", 4 * HOUR, False),
        ("4h", None, True),
        ("0s", timedelta(0), False),
        ("-1h", timedelta(0), False),
        ("false", HOUR, False),
        ("True", HOUR, False),
        ("soon", HOUR, False),
    ],
)
def test_only_true_and_a_positive_duration_protect(text: str | None, age: timedelta | None, holds: bool) -> None:
    assert is_protected(text, NOW - age if age is not None else None, NOW) is holds


def test_the_end_of_a_duration_is_known() -> None:
    """Otherwise, a resync period continues although the passing of time allows the node to go."""
    assert protected_until("90m", NOW) == NOW + 1.5 * HOUR
    assert protected_until("true", NOW) is None
    assert protected_until("90m", None) is None
    assert protected_until(None, NOW) is None
