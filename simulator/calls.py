"""A call that a function makes to the world outside, and what may befall it."""

from __future__ import annotations

from typing import Any, Final

import msgspec

THROTTLE: Final = "throttle"
ERROR: Final = "error"
LOST_REPLY: Final = "lostReply"
CRASH_BEFORE: Final = "crashBefore"
CRASH_AFTER: Final = "crashAfter"
DELAY: Final = "delay"
KINDS: Final = (THROTTLE, ERROR, LOST_REPLY, CRASH_BEFORE, CRASH_AFTER, DELAY)


class Call(msgspec.Struct, kw_only=True):
    """One call to AWS as boto3 makes it; its attempts share it.

    Attributes:
        answer: What the embedded account answered, where it answers in moto's place.
    """

    service: str
    operation: str
    parameters: dict[str, Any]
    answer: dict[str, Any] | None = None

    @property
    def name(self) -> str:
        """As a fault step names it: `ec2:CreateFleet`."""
        return f"{self.service}:{self.operation}"


class CrashError(BaseException):
    """The function dies here; no `except Exception` of its own may save it."""


class TimeoutExpiredError(CrashError):
    """The function ran into its time-out."""
