"""When something that failed is tried again."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lambdas.ports import ConflictError, DeniedError, PortError, ThrottledError

AFTER_CONFLICT: Final = timedelta(seconds=1)
AFTER_FAULT: Final = timedelta(seconds=5)
AFTER_DENIAL: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(seconds=30)
"""Between two looks that fail; a spot instance is there for two minutes, so no look is put off for longer."""

DOUBLINGS: Final = 8
"""More would be beyond `LONGEST` from any beginning."""


def retry_after(error: PortError, failures: int) -> timedelta:
    """How long to leave it alone after an error that so many others came before: twice as long each time."""
    if isinstance(error, DeniedError):
        return AFTER_DENIAL
    if isinstance(error, ThrottledError) and error.retry_after:
        return max(AFTER_FAULT, error.retry_after)
    first = AFTER_CONFLICT if isinstance(error, ConflictError) else AFTER_FAULT
    return min(LONGEST, first * (1 << min(failures, DOUBLINGS)))
