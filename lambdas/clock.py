"""Time as Lambda has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol

from lambdas.ports import Clock


class SystemClock:
    """The machine's clock (`lambdas.ports.Clock`)."""

    def now(self) -> datetime:
        """The present moment, UTC."""
        return datetime.now(UTC)


def pause(duration: timedelta) -> None:
    """Let so much time pass."""
    time.sleep(duration.total_seconds())


def stopwatch(clock: Clock, runs: timedelta) -> Callable[[], float]:
    """A question which share of the time is over, 1 or more for all of it; it runs from the first time that it is asked."""
    began: list[datetime] = []

    def answer() -> float:
        now = clock.now()
        if not began:
            began.append(now)
        return (now - began[0]) / runs if runs else 1.0

    return answer


class Invocation(Protocol):
    """What Lambda tells a handler of how long it may still run."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds left."""
        ...


def deadline_of(invocation: Invocation, clock: Clock) -> datetime:
    """When the invocation is cut off."""
    return clock.now() + timedelta(milliseconds=invocation.get_remaining_time_in_millis())
