"""Counts the places in capacity reservations that claims hold or are being launched into."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from core.lifecycle.records import ClaimRecord


def held_places(records: Iterable[ClaimRecord]) -> dict[str, int]:
    """Return reservation id → how many claims hold a place; a claim that may still become any of several counts in each.

    A leaving claim holds its place until its record is dropped: its instance may still run.
    """
    taken: Counter[str] = Counter()
    for record in records:
        offerings = (record.machine.offering,) if record.machine is not None else record.offerings
        taken.update({offering.reservation_id for offering in offerings if offering.reservation_id})
    return dict(sorted(taken.items()))
