"""Splits the time from a pod's creation to its open node into parts."""

from __future__ import annotations

from core.lifecycle.records import ClaimRecord


def seconds_since_pods(record: ClaimRecord) -> dict[str, float]:
    """Return the seconds from the creation of the claim's first pod to each later known moment, in their usual order."""
    moments = record.moments
    began = moments.pods_created_at
    if began is None:
        return {}
    later = (
        ("marked", moments.pods_marked_at),
        ("heard", moments.heard_at),
        ("planned", record.requested_at),
        ("launched", moments.launched_at),
        ("seen", moments.seen_at),
        ("usable", moments.usable_at),
        ("bound", moments.bound_at),
        ("opened", moments.opened_at),
    )
    return {name: (moment - began).total_seconds() for name, moment in later if moment is not None}
