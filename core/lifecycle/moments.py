"""Where the time from a pod to its open node goes."""

from __future__ import annotations

from core.lifecycle.records import ClaimRecord


def seconds_since_pods(record: ClaimRecord) -> dict[str, float]:
    """Seconds from the creation of the claim's first pod to each later moment that is known, in their usual order."""
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
