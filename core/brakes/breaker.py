"""A NodePool's breaker: whether its new nodes join, told by the last few that were to.

Closed: nothing is stopped. New nodes that fail one after another open it: the pool's working nodes are not given up for
nodes that do not come. When its pause is over it is half open: one command of the pool at a time may try. A node that
becomes ready closes it; one more failure opens it again, for twice as long.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

import msgspec

from core.brakes.brake import Brake, BrakeKind

OPENS_AFTER: Final = 3
"""Failures in a row: one broken machine is chance, three are an image, a subnet or a role."""

FIRST_PAUSE: Final = timedelta(minutes=15)
"""As long as a node may take to join."""

LONGEST_PAUSE: Final = timedelta(hours=4)

JOIN_FAILURES: Final = frozenset(
    {
        "InitializationTimeout",
        "InstanceGone",
        "LaunchDenied",
        "LaunchTimeout",
        "RegistrationTimeout",
        "ReplacementNotReady",
    }
)
"""Reasons for which a claim that never became ready goes, and that count. Missing capacity is no failure of the pool."""


class Breaker(msgspec.Struct, frozen=True, kw_only=True):
    """What is remembered of one NodePool; a pool without failures has no record.

    Attributes:
        failures: New nodes that failed since the last one that became ready.
        openings: How often it opened since then.
        open_until: When its pause ends; None before it first opens.
        message: The last failure.
    """

    node_pool: str
    failures: int = 0
    openings: int = 0
    open_until: datetime | None = None
    message: str = ""
    version: int = 0

    def after_failure(self, message: str, now: datetime) -> Breaker:
        """As it is after one more failure; while it is open only the message changes: late news of the same cause."""
        if self.open_until is not None and now < self.open_until:
            return msgspec.structs.replace(self, message=message)
        failures, openings, open_until = self.failures + 1, self.openings, self.open_until
        if failures >= OPENS_AFTER:
            open_until = now + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(openings, 10))
            openings += 1
        return msgspec.structs.replace(
            self, failures=failures, openings=openings, open_until=open_until, message=message
        )

    def brake(self, now: datetime) -> Brake | None:
        """The brake that it engages now, None while it is closed."""
        if self.open_until is None:
            return None
        told = f"{self.failures} new nodes of NodePool {self.node_pool} failed in a row, the last: {self.message}"
        if now < self.open_until:
            until = self.open_until.isoformat(timespec="seconds")
            return Brake(BrakeKind.POOL_BREAKER, f"{told}; tried again at {until}", node_pool=self.node_pool)
        return Brake(BrakeKind.POOL_PROBE, f"{told}; one command at a time tries again", node_pool=self.node_pool)
