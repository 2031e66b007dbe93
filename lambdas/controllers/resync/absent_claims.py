"""Decides whether a scheduled run may skip reading claims: there were none, and no change was recorded since."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from adapters.store import Changes

READ_EVERY: Final = timedelta(minutes=5) - timedelta(seconds=15)
"""How long the absence of claims is trusted without a recorded change, with a margin for a schedule that starts early.

If a record is lost, nothing is urgent meanwhile: a new claim is not a candidate for disruption yet, `provision` sees its
waiting pods, and `reconcile` repairs a stalled launch.
"""


class AbsentClaims:
    """The absence of claims that one sandbox observed. A new sandbox reads the claims first."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._seen_at: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether there are still no claims. Takes one read of the table instead of nine for the claims. Raises PortError."""
        if self._seen_at is None or now - self._seen_at >= READ_EVERY:
            return False
        changed_at = self._changes.last()
        return changed_at is None or changed_at < self._seen_at

    def note(self, read_at: datetime, *, are_absent: bool) -> None:
        """Record whether a reading of all claims, begun at `read_at`, found none."""
        self._seen_at = read_at if are_absent else None
