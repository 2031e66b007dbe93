"""Room for CapacityBuffers in a live cluster: launched once, and reported on the object."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.ports import JsonObject, TransientError
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_pending_pod

POD = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}]}


@pytest.fixture
def lab() -> Lab:
    found = Lab(feature_gates="CapacityBuffer=true")
    found.kubernetes.put(
        {"kind": "PodTemplate", "metadata": {"name": "shape", "namespace": "default"}, "template": {"spec": POD}},
        a_buffer(podTemplateRef={"name": "shape"}, replicas=1),
    )
    return found


def a_buffer(**spec: Any) -> JsonObject:
    return {
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default", "generation": 3},
        "spec": spec,
    }


def conditions(lab: Lab) -> dict[str, tuple[str, str]]:
    status = lab.kubernetes.raw(kinds.CAPACITY_BUFFERS, "spare", "default")["status"]
    return {found["type"]: (found["status"], found["reason"]) for found in status["conditions"]}


def test_room_is_launched_without_any_pending_pod_and_only_once(lab: Lab) -> None:
    """Otherwise, a burst of pods waits for nodes, or each run launches the room again."""
    lab.provision()
    assert lab.claim.plan.pods == ()
    assert lab.claim.plan.buffer_pods == ("default/capacity-buffer-spare-1",)
    assert conditions(lab)["Provisioning"] == ("False", "RequiresNewCapacity")
    lab.provision()
    lab.boot()
    lab.tick(4)
    lab.provision()
    assert len(lab.cloud.instances()) == 1
    status = lab.kubernetes.raw(kinds.CAPACITY_BUFFERS, "spare", "default")["status"]
    assert (status["replicas"], status["podTemplateRef"]) == (1, {"name": "shape"})
    assert conditions(lab) == {
        "Provisioning": ("True", "FitsExistingCapacity"),
        "ReadyForProvisioning": ("True", "Resolved"),
    }


def test_a_requested_launch_counts(lab: Lab) -> None:
    """Otherwise, the second run requests it again, and the third."""

    def fails(_: str) -> None:
        raise TransientError("ec2:CreateFleet", "throttled")

    lab.cloud.before_call = fails
    lab.provision()
    assert lab.claim.phase is ClaimPhase.REQUESTED
    lab.provision()
    assert len(lab.claims) == 1


def test_a_pod_that_uses_the_room_causes_a_new_launch(lab: Lab) -> None:
    """Otherwise, a buffer is used once and never filled again."""
    lab.settle()
    lab.kubernetes.put(a_pending_pod("p", cpu="3500m"))
    lab.bind("p")
    lab.provision()
    assert len(lab.cloud.instances()) == 2


def test_a_buffer_that_cannot_be_read_says_why(lab: Lab) -> None:
    lab.kubernetes.put(a_buffer(podTemplateRef={"name": "gone"}, replicas=1))
    lab.provision()
    assert conditions(lab) == {
        "Provisioning": ("False", "NotReadyForProvisioning"),
        "ReadyForProvisioning": ("False", "PodTemplateNotFound"),
    }
    assert lab.claims == ()


def test_status_is_written_only_when_it_changes(lab: Lab) -> None:
    """Otherwise, every run notifies all watchers of buffers."""
    lab.settle()
    lab.provision()
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    lab.provision()
    assert "patch capacitybuffers" not in calls


def test_without_the_gate_buffers_are_not_listed() -> None:
    """Clusters without the CRD would answer 404 in every run."""
    lab = Lab()
    calls: list[str] = []
    lab.kubernetes.before_call = calls.append
    lab.provision()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.provision()
    assert "list capacitybuffers" not in calls
