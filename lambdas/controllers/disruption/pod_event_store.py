"""Stores on which nodes pods arrived or left, for `disrupt` and `reconcile`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from adapters.observation.cluster_state import ClusterState
from adapters.observation.stores import Stores
from adapters.ports import ConflictError

POD_EVENTS_PER_RUN: Final = 500
"""The most writes per observation: minutely CronJobs on thousands of nodes would otherwise cause as many writes a minute,
indefinitely."""

_NEVER: Final = datetime.min.replace(tzinfo=UTC)


def write_pod_events(stores: Stores, view: ClusterState) -> None:
    """Store on which nodes pods arrived or left; a concurrent write wins, and the next observation detects the event again.

    If there are many, those with the oldest last event come first. A node whose event is not stored counts as still changing,
    so it is consolidated later, never earlier.
    """
    oldest_first = sorted(view.pod_events, key=lambda event: (event[0].last_pod_event_at or _NEVER, event[0].name))
    for before, after in oldest_first[:POD_EVENTS_PER_RUN]:
        try:
            stores.claims.change(before, after)
        except ConflictError:
            continue
