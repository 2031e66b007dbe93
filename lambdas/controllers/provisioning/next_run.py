"""Requests the next run of `provision`, one for all concurrent requests, and spaces runs that messages start."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from adapters.messages import WokenBy, wake_up
from adapters.ports import Clock, Queue

SPACING: Final = timedelta(seconds=1)
"""The shortest time from the end of a plan to the next run that a message starts.

Each launch that EC2 refuses wakes `provision`; without capacity, plans would follow each other without a pause (docs/adr/0202).
"""


class NextRun:
    """The requests of one sandbox. Sandboxes do not share them, so a run may be requested twice but is never missed."""

    def __init__(self, wake_ups: Queue, clock: Clock) -> None:
        self._wake_ups = wake_ups
        self._clock = clock
        self._ended_at: datetime | None = None
        self._news_at = datetime.min.replace(tzinfo=UTC)
        self._requested: tuple[datetime, datetime] | None = None
        """The time of the last requested run, and until when it may request further ones."""

    def ask(self, reason: str, until: datetime, delay: timedelta) -> None:
        """Request a run after this delay if the chain lasts until then. Raises PortError.

        Nothing is sent if an equivalent run is already requested by then.
        """
        now = self._clock.now()
        at = now + delay
        if at > until:
            return
        if self._requested is not None:
            comes_at, its_until = self._requested
            if now < comes_at <= at and comes_at + delay <= its_until:
                return
        self._wake_ups.send([wake_up(reason, until)], delay=delay)
        self._requested = at, until

    def is_too_early(self, cause: WokenBy) -> bool:
        """Whether a run that messages started is too soon after a plan. Raises PortError.

        A run with news is requested again for later, once for all news until then; a run's own request is dropped, since the
        previous plan has requested the next run.
        """
        now = self._clock.now()
        if cause is WokenBy.SCHEDULE or self._ended_at is None or now - self._ended_at >= SPACING:
            return False
        if cause is WokenBy.NEWS and now >= self._news_at:
            self._wake_ups.send([wake_up("spaced")], delay=SPACING)
            self._news_at = now + SPACING
        return True

    def planned(self) -> None:
        """Record the end of a plan."""
        self._ended_at = self._clock.now()
