"""Waits for the turn of a launch, and reports to the pace that all sandboxes share when EC2 throttles one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, Protocol

from adapters.ports import Clock, PortError
from adapters.runtime.observability import logger


class RequestPace(Protocol):
    """Assigns the turns of all sandboxes (`adapters.aws.dynamodb.request_pace`)."""

    def wait(self, now: datetime) -> timedelta:
        """Take the next turn and return how long to wait for it. Raises ThrottledError where that is too long."""
        ...

    def slow_down(self, sent: datetime, now: datetime, answers: int) -> None:
        """Reduce the rate after throttled answers to the request that was sent then. Raises PortError."""
        ...


class LaunchTurns:
    """Turns of an application that does not launch, or alone in its account: no request waits."""

    def take(self) -> datetime | None:
        """Wait until EC2 accepts a further launch, and return that moment. Raises ThrottledError."""
        return None

    def slow_down(self, sent: datetime | None, answers: int) -> None:
        """Learn how many attempts of the request that was sent then EC2 throttled."""


UNPACED: Final = LaunchTurns()


class PacedTurns(LaunchTurns):
    """Turns at the shared pace."""

    def __init__(self, pace: RequestPace, clock: Clock, pause: Callable[[timedelta], None]) -> None:
        self._pace = pace
        self._clock = clock
        self._pause = pause

    def take(self) -> datetime:
        """Wait until EC2 accepts a further launch, and return that moment. Raises ThrottledError."""
        wait = self._pace.wait(self._clock.now())
        if wait:
            self._pause(wait)
        return self._clock.now()

    def slow_down(self, sent: datetime | None, answers: int) -> None:
        """Reduce the pace. If the table does not answer, the next throttled launch does."""
        if sent is None or not answers:
            return
        try:
            self._pace.slow_down(sent, self._clock.now(), answers)
        except PortError as error:
            logger.warning("throttling is not stored", extra={"problem": str(error)})
