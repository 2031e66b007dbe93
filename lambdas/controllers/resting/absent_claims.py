"""Whether a scheduled run may leave the claims unread: there were none, and nothing was recorded since that could bring one."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from lambdas.store import Changes

READ_EVERY: Final = timedelta(minutes=5) - timedelta(seconds=15)
"""How long their absence counts where no change is recorded, less what a schedule may be early. The record of a change may get
lost: a claim is no candidate for disruption in its first minutes, its pods wait unbound, which `provision` sees, and a
launch that stands still is repaired by `reconcile`."""


class AbsentClaims:
    """The absence that one sandbox saw. A new sandbox has seen none, so it reads."""

    def __init__(self, changes: Changes) -> None:
        self._changes = changes
        self._seen_at: datetime | None = None

    def holds(self, now: datetime) -> bool:
        """Whether there are no claims still. Costs one read of the table where the claims cost nine. Raises PortError."""
        if self._seen_at is None or now - self._seen_at >= READ_EVERY:
            return False
        changed_at = self._changes.last()
        return changed_at is None or changed_at < self._seen_at

    def note(self, read_at: datetime, *, are_absent: bool) -> None:
        """Record what a reading of all claims that began at `read_at` found."""
        self._seen_at = read_at if are_absent else None
