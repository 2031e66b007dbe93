"""Asks for looks of `disrupt` at the moments at which something may change, and spaces those that messages start."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from lambdas.messages import wake_up
from lambdas.observability import logger
from lambdas.ports import Clock, PortError, Queue

SPACING: Final = timedelta(seconds=10)
"""Shortest time between two looks that messages start (Karpenter looks every ten seconds)."""

WIDEST_SPACING: Final = timedelta(minutes=1)
"""From the second on, looks in a row that find nothing double the time up to this: where pods come and go all day, they cost
little more than the schedule's."""

PAUSE: Final = timedelta(seconds=45)
"""After so long without a look the spacing begins anew: the schedule's looks are a minute apart."""

GATHERED: Final = timedelta(seconds=5)
"""Moments so close to each other need one look."""

FARTHEST: Final = timedelta(minutes=15)
"""SQS' longest delay; what is farther off is asked for by a later look."""


def request_run(looks: Queue, reason: str, delay: timedelta = timedelta(0)) -> bool:
    """Ask for a look; return whether the queue took the request. The schedule makes up for a request that is lost."""
    try:
        looks.send([wake_up(reason)], delay=delay)
    except PortError as error:
        logger.warning("look could not be asked for", extra={"problem": str(error)})
        return False
    return True


class RunRequests:
    """What one sandbox has asked for. Another knows nothing of it, so there may be a look too many and never one too few."""

    def __init__(self, looks: Queue, clock: Clock) -> None:
        self._looks = looks
        self._clock = clock
        self._asked: datetime | None = None

    def ask(self, reason: str, at: datetime) -> bool:
        """Ask for a look at this moment, unless one comes by then anyway; return whether it was asked for."""
        now = self._clock.now()
        if at - now > FARTHEST or (self._asked is not None and now < self._asked <= at + GATHERED):
            return False
        if not request_run(self._looks, reason, max(timedelta(0), at - now)):
            return False
        self._asked = at
        return True


class SpacedRequests:
    """Requests of a function that hears of many changes: one at once, and one for all of the next ten seconds."""

    def __init__(self, looks: Queue, clock: Clock) -> None:
        self._requests = RunRequests(looks, clock)
        self._clock = clock
        self._last: datetime | None = None

    def ask(self, reason: str) -> bool:
        """Ask for a look soon; return whether it was asked for."""
        now = self._clock.now()
        at = now if self._last is None else max(now, self._last + SPACING)
        if not self._requests.ask(reason, at):
            return False
        self._last = at
        return True


class RunPace:
    """How soon a run that a message started may look."""

    def __init__(self) -> None:
        self._looked_at: datetime | None = None
        self._futile = 0

    def earliest(self, now: datetime) -> datetime:
        """Return when such a run may look: now, or some time after the last look."""
        return now if self._looked_at is None else max(now, self._looked_at + self._spacing())

    def looked(self, now: datetime, *, found: bool) -> None:
        """A look has ended. The first after a pause is no sign that looks are futile: it dates what has changed."""
        is_first = self._looked_at is None or now - self._looked_at >= PAUSE
        self._futile = 0 if found or is_first else self._futile + 1
        self._looked_at = now

    def _spacing(self) -> timedelta:
        return min(WIDEST_SPACING, SPACING * (1 << min(max(self._futile - 1, 0), 8)))
