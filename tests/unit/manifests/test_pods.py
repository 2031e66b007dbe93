"""Pods: from wire to model."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from core import labels
from core.errors import InvalidInputError
from core.manifests.pods import PodTranslator
from core.model.pod import Owner, Pod
from tests.unit.manifests.pods_for_tests import WHOLE, a_wire_pod, translated


def test_missing_fields_have_kubernetes_defaults() -> None:
    """A bare manifest is a pending pod of the namespace default."""
    pod = translated()
    assert (pod.key, pod.phase, pod.spec.scheduler_name) == ("default/p", "Pending", "default-scheduler")
    assert pod.spec.requests == {"pods": 1}
    assert pod.is_ready is None


def test_conditions_of_scheduler_and_kubelet_are_read() -> None:
    """In a live cluster, only pods marked unschedulable are planned for."""
    status = {
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "lastTransitionTime": "2026-07-01T00:00:00Z",
            },
            {"type": "Ready", "status": "False"},
        ]
    }
    pod = translated(status=status)
    assert pod.is_marked_unschedulable
    assert pod.unschedulable_since == datetime(2026, 7, 1, tzinfo=UTC), "a pod's wait counts from here"
    assert pod.is_ready is False


def test_a_gated_pod_is_recognized() -> None:
    """It needs no node yet."""
    assert translated(schedulingGates=[{"name": "wait"}]).is_gated


def test_owners_are_kept() -> None:
    """A DaemonSet's pod must not cause a new node."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "u", "controller": True}
    pod = translated(meta={"ownerReferences": [owner]})
    assert pod.owners == (Owner("DaemonSet", "agent", "apps/v1", "u", True),)
    assert pod.is_daemon


def test_equal_pods_share_one_spec() -> None:
    """The scheduler groups pods by it."""
    translator = PodTranslator()
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    first, second = (translator.pod(a_wire_pod(name, containers=[container])) for name in "ab")
    assert first.spec is second.spec


def test_a_resized_pod_has_its_own_requests() -> None:
    """Its size differs from that of other pods with the same spec."""
    translator = PodTranslator()
    container = {"name": "c", "resources": {"requests": {"cpu": "1"}}}

    def status(cpu: str) -> dict[str, Any]:
        held = {"requests": {"cpu": cpu}}
        return {"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": cpu}, "resources": held}]}

    usual = translator.pod(a_wire_pod("a", containers=[container], status=status("1")))
    grown = translator.pod(a_wire_pod("b", containers=[container], status=status("3")))
    others = {"conditions": [{"type": "Ready", "status": "True"}]}
    again = translator.pod(a_wire_pod("c", containers=[container], status=status("3") | others))
    assert usual.spec.requests["cpu"] == 1000
    assert grown.spec.requests["cpu"] == 3000
    assert grown.spec is again.spec


def test_a_pod_without_a_name_is_refused() -> None:
    """Plans identify pods by name."""
    with pytest.raises(InvalidInputError) as caught:
        PodTranslator().pod(a_wire_pod(""))
    assert caught.value.field == "metadata.name"


def test_a_pod_that_cannot_be_read_keeps_its_identity_and_place_where_the_caller_goes_on() -> None:
    """Otherwise, one odd pod stops every plan, or its node counts as empty."""
    translator = PodTranslator()
    good = a_wire_pod(containers=[{"name": "c", "resources": {"requests": {"cpu": "1"}}}])
    assert translator.readable_or_not(good) == translator.pod(good)
    odd = a_wire_pod(nodeName="n", containers=[{"name": "c", "resources": {"requests": {"cpu": "lots"}}}])
    found = translator.readable_or_not(odd)
    assert (found.key, found.node_name, found.spec.requests) == ("default/p", "n", {"pods": 1})
    assert found.unreadable == found.spec.problem
    assert found.unreadable.startswith("spec.containers[0].resources.requests.cpu: ")


def test_every_field_of_a_pod_is_read() -> None:
    """What is lost decides no drain: a pod that was kept, or that has long been terminating, would count as any other."""
    time = "2026-03-01T10:00:00Z"
    meta = {
        "name": "q",
        "namespace": "shop",
        "uid": "u",
        "creationTimestamp": time,
        "deletionTimestamp": time,
        "labels": {"app": "a"},
        "annotations": {labels.DO_NOT_DISRUPT: "true"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r"}],
    }
    refused = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": time}
    status = {
        "phase": "Running",
        "startTime": time,
        "nominatedNodeName": "n",
        "conditions": [refused, {"type": "Ready", "status": "True"}],
    }
    pod, bare = translated(status=status, meta=meta, **WHOLE), translated()
    lost = [name for name in Pod.__struct_fields__ if getattr(pod, name) == getattr(bare, name)]
    assert lost == ["unschedulable_since", "unreadable"]  # a bound pod keeps no times, and everything could be read


@pytest.mark.parametrize(
    ("conditions", "is_ready"),
    [
        ([], None),
        ([{"type": "Ready", "status": "True"}], True),
        ([{"type": "Ready", "status": "False"}], False),
        ([{"type": "Ready", "status": "Unknown"}], None),
        ([{"type": "Initialized", "status": "True"}], None),
    ],
)
def test_a_pod_of_a_lost_kubelet_is_neither_ready_nor_unready(
    conditions: list[dict[str, str]], is_ready: bool | None
) -> None:
    assert translated(status={"conditions": conditions}).is_ready is is_ready


def test_only_the_schedulers_own_report_marks_a_pod() -> None:
    """A pod that is gated has the same condition with another reason."""
    time = "2026-03-01T10:00:00Z"

    def marked(reason: str) -> tuple[bool, datetime | None]:
        condition = {"type": "PodScheduled", "status": "False", "reason": reason, "lastTransitionTime": time}
        pod = translated(status={"conditions": [condition]})
        return pod.is_marked_unschedulable, pod.unschedulable_since

    assert marked("Unschedulable") == (True, datetime(2026, 3, 1, 10, tzinfo=UTC))
    assert marked("SchedulingGated") == (False, None)
