from __future__ import annotations

from datetime import timedelta

from adapters.runtime.clock import stopwatch
from tests.builders import NOW
from tests.fakes.world import FakeClock


def test_a_stopwatch_starts_with_the_first_question_and_returns_the_elapsed_share() -> None:
    """Otherwise, the search's first kind of step takes all of the time."""
    clock = FakeClock(NOW)
    over = stopwatch(clock, timedelta(seconds=4))
    clock.advance(seconds=9)
    shares = []
    for _ in range(6):
        shares.append(over())
        clock.advance(seconds=1)
    assert shares == [0, 0.25, 0.5, 0.75, 1, 1.25]


def test_time_without_cpu_counts_for_a_quarter() -> None:
    """On a busy CPU, or with little memory configured, a burst's plan remained the greedy one, three times as expensive."""
    clock = FakeClock(NOW)
    over = stopwatch(clock, timedelta(seconds=4))
    over()
    clock.advance(seconds=1)
    clock.pause(timedelta(seconds=2))
    assert over() == 0.25
    clock.pause(timedelta(seconds=13))
    assert over() == 1


def test_a_stopwatch_without_time_is_over_at_once() -> None:
    assert stopwatch(FakeClock(NOW), timedelta(0))() >= 1
