"""Spreads the removals of claims whose instances AWS retires or restarts on an announced date (docs/adr/0031)."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Final

from core.lifecycle.draining.cancellation import is_voluntary
from core.lifecycle.records import ClaimRecord

BEGINS_BEFORE: Final = timedelta(hours=72)
"""How long before the date removals begin: three nights, so that a nightly budget window opens at least twice."""

SPREAD: Final = timedelta(hours=24)
"""The period over which removals of claims with the same date begin: AWS may announce one date for a whole rack."""

DUE_BEFORE: Final = timedelta(hours=6)
"""How long before the date budgets no longer apply."""


def is_due(record: ClaimRecord, now: datetime) -> bool:
    """Whether the claim must go now: its date is near or past, and it is not leaving for such a reason already."""
    must_go = record.deletion is not None and not is_voluntary(record.deletion)
    return record.retires_at is not None and not must_go and now >= record.retires_at - DUE_BEFORE


def approaching(records: Iterable[ClaimRecord], removed: Collection[str], now: datetime) -> tuple[str, ...]:
    """Return names of the claims that may go now within budgets, the nearest date first, ties by name.

    Args:
        records: All claims.
        removed: Names of claims that commands are already removing.
        now: The moment.
    """
    found = [
        (record.retires_at, record.name)
        for record in records
        if record.retires_at is not None
        and record.deletion is None
        and record.name not in removed
        and (record.hold is None or record.hold.until <= now)
        and begins_at(record.name, record.retires_at) <= now < record.retires_at - DUE_BEFORE
    ]
    return tuple(name for _, name in sorted(found))


def begins_at(name: str, retires_at: datetime) -> datetime:
    """Return when the claim of this name may begin to go; always the same for the same arguments."""
    draw = int.from_bytes(blake2b(name.encode(), digest_size=4).digest())
    return retires_at - BEGINS_BEFORE + timedelta(microseconds=SPREAD // timedelta(microseconds=1) * draw >> 32)
