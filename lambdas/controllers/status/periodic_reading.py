"""Caches the last answer of a source, and reads it again when it is due."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, Generic, TypeVar

from adapters.ports import Clock

READ_EVERY: Final = timedelta(minutes=5)
"""As often as the market and EC2's quotas are read from AWS."""

Reading = TypeVar("Reading")


class PeriodicReading(Generic[Reading]):
    """The last reading of one source.

    Attributes:
        latest: The last answer of the source; None before the first reading.
    """

    def __init__(self, clock: Clock) -> None:
        self.latest: Reading | None = None
        self._clock = clock
        self._read_at = datetime.min.replace(tzinfo=UTC)

    def refresh(self, source: Callable[[], Reading | None]) -> None:
        """Read the source again where that is due. Raises PortError."""
        now = self._clock.now()
        if now - self._read_at >= READ_EVERY:
            self.latest, self._read_at = source(), now
