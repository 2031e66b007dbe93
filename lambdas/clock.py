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


def stopwatch(clock: Clock, runs: timedelta) -> Callable[[], bool]:
    """A question whether the time is over; it runs from the first time that it is asked."""
    asked: list[datetime] = []

    def answer() -> bool:
        asked.append(clock.now())
        return asked[-1] - asked[0] >= runs

    return answer


class Invocation(Protocol):
    """What Lambda tells a handler of how long it may still run."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds left."""
        ...


def deadline_of(invocation: Invocation, clock: Clock) -> datetime:
    """When the invocation is cut off."""
    return clock.now() + timedelta(milliseconds=invocation.get_remaining_time_in_millis())
