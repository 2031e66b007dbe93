"""Recheck delays that grow with the time already waited."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

SHORTEST: Final = timedelta(seconds=2)
LONGEST: Final = timedelta(seconds=30)


def recheck_after(since: datetime, now: datetime) -> timedelta:
    """A tenth of the time already waited, in whole seconds, within `SHORTEST` and `LONGEST`."""
    tenth = timedelta(seconds=int((now - since).total_seconds() / 10))
    return min(LONGEST, max(SHORTEST, tenth))
