"""The time."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Provides the time; the simulator's is virtual."""

    def now(self) -> datetime:
        """The present moment, aware, UTC."""
        ...

    def worked(self) -> timedelta:
        """Return how much processor time the process has had since it began."""
        ...
