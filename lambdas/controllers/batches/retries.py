"""Retry delays after failures."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from adapters.ports import ConflictError, DeniedError, PortError, ThrottledError

AFTER_CONFLICT: Final = timedelta(seconds=1)
AFTER_FAULT: Final = timedelta(seconds=5)
AFTER_DENIAL: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(seconds=30)
"""The longest delay by doubling: a spot notice is two minutes.

Only denials, which a person has to resolve, and delays that a server requests (bounded where they are read) are longer.
"""

DOUBLINGS: Final = 8
"""More doublings would exceed `LONGEST` from any start."""


def retry_after(error: PortError, failures: int) -> timedelta:
    """Return how long to wait after an error that follows this many others; the delay doubles each time."""
    if isinstance(error, DeniedError):
        return AFTER_DENIAL
    if isinstance(error, ThrottledError) and error.retry_after:
        return max(AFTER_FAULT, error.retry_after)
    first = AFTER_CONFLICT if isinstance(error, ConflictError) else AFTER_FAULT
    return min(LONGEST, first * (1 << min(failures, DOUBLINGS)))
