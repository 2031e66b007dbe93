"""Leases: the exclusive right of one run to plan, decide, validate or bind."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Protocol

import msgspec

DECIDER: Final = "decider"
"""Name of the lease for deciding about disruption: two runs would decide the same twice."""


PLANNER = "planner"
"""Name of the lease for requesting claims: one planner per cluster at a time."""


DISRUPTION: Final = "disruption"
"""Name of the lease for validating commands, so that two runs do not use the same room."""


BINDER: Final = "binder"
"""Name of the lease for binding pods to nodes: rules across nodes count what every other run binds."""


_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class Lease(msgspec.Struct, frozen=True):
    """A held lease. `fence` grows with each holder; writes check it, so a holder whose lease has expired cannot write.

    It is at least the time in milliseconds, so it also grows across the loss of a table or its replacement by an older copy:
    names derived from it are never reused.
    """

    name: str
    fence: int

    @property
    def stamp(self) -> str:
        """The fence in few characters, for names; it sorts like the fence."""
        rest, text = self.fence, ""
        while rest:
            rest, digit = divmod(rest, len(_DIGITS))
            text = _DIGITS[digit] + text
        return text


class Leases(Protocol):
    """Leases of one cluster."""

    def acquire(self, name: str, owner: str, *, now: datetime, for_: timedelta) -> Lease | None:
        """Take the lease, None while another holds it. Its fence exceeds all earlier ones and is not below the time."""
        ...

    def release(self, lease: Lease) -> None:
        """Release the lease; no error if another owner holds it by now."""
        ...
