"""Records since when this sandbox knows that held nodes are ready: a single clock needs no allowance for clock differences."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from core.lifecycle.records import ClaimPhase, ClaimRecord

REMEMBERED: Final = 5_000
"""The most claims; when there are more, all are dropped, and the times in their rows are used."""


class ReadyNodes:
    """The claims of one sandbox whose nodes wait for their first turn. Sandboxes do not share these times."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, datetime], datetime] = {}

    def known_for(self, record: ClaimRecord, now: datetime) -> timedelta:
        """Return how long this sandbox has known that the node is usable: zero at first, and where its pods are bound."""
        usable_at = record.moments.usable_at
        if usable_at is None or record.phase is not ClaimPhase.REGISTERED or record.is_bound:
            return timedelta(0)
        if len(self._known) >= REMEMBERED:
            self._known = {}
        return now - self._known.setdefault((record.name, usable_at), now)
