"""The port of the clock."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Provides the time; the simulator's is virtual."""

    def now(self) -> datetime:
        """Return the current time, aware, UTC."""
        ...

    def worked(self) -> timedelta:
        """Return the processor time of the process since its start."""
        ...
