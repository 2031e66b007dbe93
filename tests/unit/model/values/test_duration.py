"""Go durations, as Kubernetes objects write them."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.model.values.duration import MICROSECOND, MICROSECONDS_PER_HOUR, parse_duration


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


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("2ms", timedelta(milliseconds=2)),
        ("3us", timedelta(microseconds=3)),
        ("4\u00b5s", timedelta(microseconds=4)),
        ("5000ns", timedelta(microseconds=5)),
        ("1m1ms", timedelta(minutes=1, milliseconds=1)),
        ("+5m", timedelta(minutes=5)),
        (".5h", timedelta(minutes=30)),
        ("5.h", timedelta(hours=5)),
        ("1h1h", timedelta(hours=2)),
        ("2562047h", timedelta(hours=2562047)),
    ],
)
def test_each_unit_of_go_is_read(text: str, span: timedelta) -> None:
    assert parse_duration(text) == span


@pytest.mark.parametrize("text", ["2562048h", "9999999999h", "+", ".s", "-Never", "+-5m", "5 m", "1hm"])
def test_what_go_cannot_hold_is_no_duration(text: str) -> None:
    """Go counts nanoseconds in 64 bits: 2562047 hours and some minutes."""
    assert parse_duration(text) is None


def test_costs_are_per_hour_of_whole_microseconds() -> None:
    assert (timedelta(microseconds=1), 3_600_000_000) == (MICROSECOND, MICROSECONDS_PER_HOUR)
