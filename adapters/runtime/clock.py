"""Time in Lambda: clock, pauses, stopwatch and deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from adapters.ports import Clock

PATIENCE: Final = 4
"""The longest elapsed time of a piece of work, as a multiple of its processor time."""


class SystemClock:
    """The machine's clock (`adapters.ports.Clock`)."""

    def now(self) -> datetime:
        """Return the present moment, UTC."""
        return datetime.now(UTC)

    def worked(self) -> timedelta:
        """Return the processor time of the process since it began."""
        return timedelta(seconds=time.process_time())


def pause(duration: timedelta) -> None:
    """Sleep for the given time."""
    time.sleep(duration.total_seconds())


def stopwatch(clock: Clock, runs: timedelta) -> Callable[[], float]:
    """Return a function that returns the elapsed share of the time, 1 or more when it is over; it starts at its first call.

    It counts processor time: elapsed time for the same work depends on load and configured memory.
    """
    began: list[tuple[datetime, timedelta]] = []

    def answer() -> float:
        now, worked = clock.now(), clock.worked()
        if not began:
            began.append((now, worked))
        passed = (now - began[0][0]) / PATIENCE
        return max(worked - began[0][1], passed) / runs if runs else 1.0

    return answer


def share_until(clock: Clock, end: datetime) -> Callable[[], float]:
    """Return a function that returns the elapsed share of the time from now to `end`, 1 or more when it is over."""
    begun = clock.now()
    whole = end - begun

    def answer() -> float:
        return (clock.now() - begun) / whole if whole > timedelta(0) else 1.0

    return answer


class Invocation(Protocol):
    """Lambda's information about the remaining time of an invocation."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds left."""
        ...


def deadline_of(invocation: Invocation, clock: Clock) -> datetime:
    """Return when the invocation is cut off."""
    return clock.now() + timedelta(milliseconds=invocation.get_remaining_time_in_millis())
