"""Ends all chains of checks of a claim except the longest (docs/adr/0109).

A message about a claim begins a chain: each check requests the next until the chain ends. All chains last equally long, so the
one that lasts longest began last.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from adapters.messages import CHECKED_FOR
from adapters.ports import ConflictError
from adapters.store import ClaimStore
from core.lifecycle.records import ClaimRecord

CLOCKS_APART: Final = timedelta(minutes=1)
"""A stored chain that lasts longer than a new one by more than this is of a wrong clock (docs/adr/0226): all others would end
for it, though it may go on nowhere."""


class CheckChains:
    """Identifies each claim's chain by its end, which the claim's row stores: one write for each chain, none for its checks."""

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims

    def goes_on(self, record: ClaimRecord, until: datetime | None, now: datetime) -> bool:
        """Whether the chain that ends at `until` continues; `record` is the claim as the check read it.

        A chain that lasts longer than all before is stored, unless the check has changed the claim; then the next check stores
        it.
        """
        if until is None or record.checked_until == until:
            return True
        latest = max(until, now + CHECKED_FOR + CLOCKS_APART)
        if record.checked_until is not None and until < record.checked_until <= latest:
            return False
        with suppress(ConflictError):
            self._claims.change(record, msgspec.structs.replace(record, checked_until=until))
        return True
