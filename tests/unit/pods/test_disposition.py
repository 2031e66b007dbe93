"""The disposition of a pod: pending, reschedulable, evictable, drainable."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from core import labels
from core.model.pod import Owner, Pod
from core.model.values.taints import Toleration
from core.pods.disposition import (
    STUCK_AFTER,
    is_drainable,
    is_evictable,
    is_pending,
    is_reschedulable,
    mark_equal_pods,
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


OF_WEB = {"owners": (Owner("ReplicaSet", "web", "apps/v1", is_controller=True),), "labels": {"app": "web"}}
REPORTED = a_pod("tried", is_marked_unschedulable=True, **OF_WEB)


def marked(*pods: Pod) -> set[str]:
    return {pod.name for pod in mark_equal_pods(pods) if pod.is_marked_unschedulable}


def test_an_equal_pod_of_the_same_controller_fails_as_well() -> None:
    assert marked(a_pod("next", **OF_WEB), REPORTED) == {"tried", "next"}


@pytest.mark.parametrize(
    "changes",
    [
        {"cpu": "500m"},
        {"labels": {"app": "web", "statefulset.kubernetes.io/pod-name": "web-1"}},
        {"namespace": "other"},
        {"owners": (Owner("ReplicaSet", "api", "apps/v1", is_controller=True),)},
        {"owners": (Owner("ReplicaSet", "web", "apps/v1"),)},
        {"owners": ()},
    ],
)
def test_a_pod_that_differs_waits_for_its_own_verdict(changes: dict[str, Any]) -> None:
    """It may find room where the other found none."""
    assert marked(a_pod("next", **{**OF_WEB, **changes}), REPORTED) == {"tried"}


@pytest.mark.parametrize("changes", [{"node_name": "n"}, {"deleted_at": NOW}, {"is_gated": True}, {"phase": "Running"}])
def test_a_pod_that_does_not_wait_is_not_marked(changes: dict[str, Any]) -> None:
    assert marked(a_pod("next", **OF_WEB, **changes), REPORTED) == {"tried"}


@pytest.mark.parametrize("changes", [{"nominated_node_name": "n"}, {"node_name": "n"}, {"phase": "Failed"}])
def test_the_mark_of_a_pod_that_no_longer_waits_says_nothing(changes: dict[str, Any]) -> None:
    """The scheduler makes room for a nominated pod by preemption, and may for its like."""
    other = a_pod("tried", is_marked_unschedulable=True, **OF_WEB, **changes)
    assert marked(a_pod("next", **OF_WEB), other) == {"tried"}


def test_pods_keep_their_order_and_what_else_they_say() -> None:
    pods = (a_pod("b", **OF_WEB), REPORTED, a_pod("a", **OF_WEB), a_pod("stranger"))
    found = mark_equal_pods(pods)
    assert [pod.name for pod in found] == ["b", "tried", "a", "stranger"]
    assert (found[1], found[3]) == (pods[1], pods[3])
    assert found[0].unschedulable_since is None  # nobody has reported this pod
