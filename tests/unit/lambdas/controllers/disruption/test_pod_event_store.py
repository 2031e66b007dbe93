"""Pods that come and go on thousands of nodes."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from adapters.observation.cluster_state import ClusterState
from lambdas.controllers.disruption.pod_event_store import POD_EVENTS_PER_RUN, write_pod_events
from tests.builders import NOW
from tests.fakes.lab import Lab
from tests.unit.lifecycle.records_for_tests import a_record


def test_the_writes_of_one_run_are_bounded_and_no_node_starves() -> None:
    """Otherwise, a CronJob on every node causes 5,000 writes, each minute."""
    lab = Lab()
    rows = lab.rows
    for number in range(POD_EVENTS_PER_RUN + 100):
        record = msgspec.structs.replace(a_record(version=1), name=f"c{number:04}", last_pod_event_at=NOW)
        rows.claims[record.name] = record
    for look in range(1, 3):
        now = NOW + timedelta(minutes=look)
        events = [
            (record, msgspec.structs.replace(record, last_pod_event_at=now, pods_digest=str(look)))
            for record in rows.claims.values()
        ]
        write_pod_events(
            lab.app.adapters.stores, cast(ClusterState, cast(Any, SimpleNamespace(pod_events=tuple(events))))
        )
        written = [record for record in rows.claims.values() if record.last_pod_event_at == now]
        assert len(written) == POD_EVENTS_PER_RUN
    assert all(record.last_pod_event_at != NOW for record in rows.claims.values())
