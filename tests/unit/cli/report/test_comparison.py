"""Steps of dollars are read off at the times of the page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cli.report.comparison import sampled
from core.model.values.quantity import nanodollars

START = datetime(2026, 11, 20, tzinfo=UTC)


def at(minute: int) -> datetime:
    return START + timedelta(minutes=minute)


def test_a_step_holds_until_the_next_one() -> None:
    """A line that joined them would show prices that nothing ever had."""
    steps = ((at(1), nanodollars(0.5)), (at(3), nanodollars(0.25)))
    assert sampled(steps, [at(minute) for minute in range(5)]) == [None, 0.5, 0.5, 0.25, 0.25]
    assert sampled((), [at(0)]) == [None]
