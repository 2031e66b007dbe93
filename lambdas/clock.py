"""Time as Lambda has it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from lambdas.ports import Clock

PATIENCE: Final = 4
"""A piece of work may take so many times its processor time."""


class SystemClock:
    """The machine's clock (`lambdas.ports.Clock`)."""

    def now(self) -> datetime:
        """The present moment, UTC."""
        return datetime.now(UTC)

    def worked(self) -> timedelta:
        """How much processor time the process has had since it began."""
        return timedelta(seconds=time.process_time())


def pause(duration: timedelta) -> None:
    """Let so much time pass."""
    time.sleep(duration.total_seconds())


def stopwatch(clock: Clock, runs: timedelta) -> Callable[[], float]:
    """A question which share of the time is over, 1 or more for all of it; it runs from the first time that it is asked.

    Processor time counts: where others have the processor, or little memory is configured, the same work takes longer.
    """
    began: list[tuple[datetime, timedelta]] = []

    def answer() -> float:
        now, worked = clock.now(), clock.worked()
        if not began:
            began.append((now, worked))
        passed = (now - began[0][0]) / PATIENCE
        return max(worked - began[0][1], passed) / runs if runs else 1.0

    return answer


class Invocation(Protocol):
    """What Lambda tells a handler of how long it may still run."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds left."""
        ...


def deadline_of(invocation: Invocation, clock: Clock) -> datetime:
    """When the invocation is cut off."""
    return clock.now() + timedelta(milliseconds=invocation.get_remaining_time_in_millis())
