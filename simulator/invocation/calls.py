"""A call of a function to the outside, and the faults that may strike it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import msgspec

THROTTLE: Final = "throttle"
ERROR: Final = "error"
LOST_REPLY: Final = "lostReply"
CRASH_BEFORE: Final = "crashBefore"
CRASH_AFTER: Final = "crashAfter"
DELAY: Final = "delay"
DENIED: Final = "denied"
CONFLICT: Final = "conflict"
STALE: Final = "stale"
PARTIAL: Final = "partial"
KINDS: Final = (
    THROTTLE,
    ERROR,
    LOST_REPLY,
    CRASH_BEFORE,
    CRASH_AFTER,
    DELAY,
    DENIED,
    CONFLICT,
    STALE,
    PARTIAL,
)

EXCEPTION: Final = "exception"
FLEET_ERROR: Final = "fleetError"
FORMS: Final = (EXCEPTION, FLEET_ERROR)
"""How a denial is reported: as the call's error, or among the `Errors` of an answered CreateFleet."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault on one attempt of a call.

    Attributes:
        delay: How long `delay` holds the attempt up; how old the list of `stale` is.
        code: The error code of `denied`: one of the service's own, or an HTTP status of the API server.
        form: The form of a `denied` error, one of `FORMS`.
        instance_type, zone, capacity_type: The offerings that a fleet error concerns; None: all.
    """

    kind: str
    delay: timedelta = timedelta(0)
    code: str = ""
    form: str = EXCEPTION
    instance_type: str | None = None
    zone: str | None = None
    capacity_type: str | None = None

    def concerns(self, instance_type: str, zone: str, capacity_type: str) -> bool:
        """Whether a fleet error concerns this offering."""
        return (
            self.instance_type in (None, instance_type)
            and self.zone in (None, zone)
            and self.capacity_type in (None, capacity_type)
        )


class Call(msgspec.Struct, kw_only=True):
    """One call to AWS as boto3 makes it; its attempts share it.

    Attributes:
        name: As a fault step names it: `ec2:CreateFleet`.
    """

    service: str
    operation: str
    parameters: dict[str, Any]
    name: str = ""

    def __post_init__(self) -> None:
        """Compute the name once: a dozen readers use it."""
        self.name = f"{self.service}:{self.operation}"


class CrashError(BaseException):
    """The function crashes here; a BaseException, so that its own `except Exception` does not catch it."""


class TimeoutExpiredError(CrashError):
    """The function ran into its time-out."""
