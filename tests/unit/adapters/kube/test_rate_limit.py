"""The request rate of one sandbox to the API server."""

from __future__ import annotations

import pytest

from adapters.kube.rate_limit import RateLimit


class Hand:
    """A clock that advances only when a caller sleeps or a test moves it."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def now(self) -> float:
        return self.seconds

    def pause(self, seconds: float) -> None:
        self.seconds += seconds


def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    """Otherwise, one function that lists a large cluster takes the server's time from everybody."""
    clock = Hand()
    limit = RateLimit(10, 5, now=clock.now, pause=clock.pause)
    for _ in range(5):
        limit()
    assert clock.seconds == 100.0
    for _ in range(20):
        limit()
    assert clock.seconds == pytest.approx(102.0)


def test_unused_rate_is_saved_up_to_a_burst_and_no_further() -> None:
    clock = Hand()
    limit = RateLimit(10, 5, now=clock.now, pause=clock.pause)
    clock.seconds += 3600
    for _ in range(6):
        limit()
    assert clock.seconds == pytest.approx(3700.1)


def test_concurrent_waiters_go_one_after_the_other() -> None:
    """If all threads woke at the same moment, they would form the burst that the rate is to prevent."""
    waits: list[float] = []
    limit = RateLimit(10, 1, now=lambda: 100.0, pause=waits.append)
    for _ in range(4):
        limit()
    assert waits == pytest.approx([0.1, 0.2, 0.3])
