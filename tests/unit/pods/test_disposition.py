"""The disposition of a pod: pending, reschedulable, evictable, drainable."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core import labels
from core.model.pod import Owner
from core.model.values.taints import Toleration
from core.pods.disposition import (
    STUCK_AFTER,
    is_drainable,
    is_evictable,
    is_pending,
    is_reschedulable,
    reschedulable,
)
from tests.builders import NOW, a_pod

DAEMON = (Owner("DaemonSet", "d"),)
MIRROR = (Owner("Node", "n"),)
STATEFUL = (Owner("StatefulSet", "s"),)
TOLERANT = (Toleration(labels.DISRUPTED_TAINT, "Exists"),)
STUCK = NOW - STUCK_AFTER - timedelta(seconds=1)


@pytest.mark.parametrize(
    ("changes", "pending", "reschedulable", "evictable", "drainable"),
    [
        ({}, True, True, True, True),
        ({"node_name": "n", "phase": "Running"}, False, True, True, True),
        ({"nominated_node_name": "n"}, False, True, True, True),
        ({"is_gated": True}, False, True, True, True),
        ({"owners": DAEMON}, False, False, True, True),
        ({"owners": MIRROR}, False, False, False, False),
        ({"phase": "Failed"}, False, False, False, False),
        ({"phase": "Succeeded"}, False, False, False, False),
        ({"deleted_at": NOW}, False, False, False, True),
        ({"deleted_at": STUCK}, False, False, False, False),
        ({"deleted_at": NOW, "owners": STATEFUL}, False, True, False, True),
        ({"deleted_at": STUCK, "owners": STATEFUL}, False, True, False, False),
        ({"tolerations": TOLERANT}, True, True, False, False),
        ({"annotations": {labels.DO_NOT_DISRUPT: "true"}}, True, True, False, True),
        ({"annotations": {labels.DO_NOT_DISRUPT: "soon"}}, True, True, True, True),
    ],
)
def test_the_table(
    changes: dict[str, Any], pending: bool, reschedulable: bool, evictable: bool, drainable: bool
) -> None:
    """Row by row as in the module's docstring."""
    pod = a_pod("p", is_marked_unschedulable=True, **changes)
    found = (is_pending(pod, requires_mark=True), is_reschedulable(pod), is_evictable(pod, NOW), is_drainable(pod, NOW))
    assert found == (pending, reschedulable, evictable, drainable)


def test_in_a_live_cluster_only_pods_marked_unschedulable_are_planned_for() -> None:
    assert is_pending(a_pod("p"), requires_mark=False)
    assert not is_pending(a_pod("p"), requires_mark=True)


def test_only_pods_that_need_a_place_are_rescheduled() -> None:
    """A node with pods of its own only counts as empty."""
    pods = (a_pod("a", owners=DAEMON), a_pod("b"), a_pod("c", phase="Succeeded"))
    assert [pod.name for pod in reschedulable(pods)] == ["b"]
