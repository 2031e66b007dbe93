"""Go durations, as Kubernetes objects write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.model.values.duration import parse_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1h30m", 5400),
        ("720h", 2_592_000),
        ("10s", 10),
        ("1.5h", 5400),
        ("0", 0),
        ("0s", 0),
        ("-5m", -300),
        ("250ms", 0.25),
    ],
)
def test_durations_are_read(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "5", "1d", "h", "1h 30m", "1.2.3s", "-", "Never", "1h30"])
def test_other_text_is_no_duration(text: str) -> None:
    assert parse_duration(text) is None
