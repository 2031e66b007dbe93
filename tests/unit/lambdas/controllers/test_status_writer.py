"""Room for CapacityBuffers in a live cluster: launched once, and reported on the object."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.ports import JsonObject, TransientError
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import resources
from lambdas.controllers.reconciliation import versions
from lambdas.controllers.status_writer import Present, StatusWriter, _replacing, condition
from tests.builders import a_class_manifest
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
    status = lab.kubernetes.raw(resources.CAPACITY_BUFFERS, "spare", "default")["status"]
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
    status = lab.kubernetes.raw(resources.CAPACITY_BUFFERS, "spare", "default")["status"]
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


# How rounds notice that objects changed, and write no more than what did.


def an_object(name: str, version: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": version}}


def test_objects_are_the_same_by_name_uid_and_version_in_any_order() -> None:
    """Otherwise, an edited NodePool is seen with the next whole observation only."""
    one, other = an_object("a", "1"), an_object("b", "1")
    assert versions([one, other]) == versions([other, one])
    for changed in (an_object("b", "2"), an_object("b", "1", "v"), an_object("c", "1"), {}):
        assert versions([one, other]) != versions([one, changed])


@pytest.mark.parametrize(
    ("present", "wanted", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 3}, {"a": 3, "b": None}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": 1}, None, None),
        ({"a": 1}, [1], [1]),
        (None, {"a": 1}, {"a": 1}),
        ("x", "y", "y"),
    ],
)
def test_a_mapping_in_a_status_is_replaced_whole(present: Any, wanted: Any, patch: Any) -> None:
    """A merge patch keeps what it does not name: a limit that is gone would be shown for ever."""
    assert _replacing(present, wanted) == patch


@pytest.mark.parametrize(
    ("status", "given", "reason"),
    [
        ("True", "", "Ready"),
        ("False", "", "ReadyFailed"),
        ("Unknown", "", "AwaitingReconciliation"),
        ("False", "SubnetsNotFound", "SubnetsNotFound"),
    ],
)
def test_a_condition_has_the_reason_that_is_usual_for_its_status(status: str, given: str, reason: str) -> None:
    """Users and their tools wait for these words, which are Karpenter's."""
    assert condition("Ready", status, "why", reason=given) == {
        "type": "Ready",
        "status": status,
        "reason": reason,
        "message": "why",
    }


@pytest.mark.parametrize("status", ["x", 5, {"conditions": 5}, {"conditions": ["x", None, {"status": "True"}]}])
def test_a_status_that_is_no_status_is_replaced(status: object) -> None:
    """Its own writer raised an error in every round, so the object kept it for ever."""
    lab = Lab()
    lab.kubernetes.put({**a_class_manifest("strange", metadata={"generation": 1}), "status": status})
    present = Present.of(resources.EC2_NODE_CLASSES, lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "strange"))
    assert StatusWriter(lab.kubernetes, lab.clock).write(present, {"conditions": [condition("Ready", "True")]})
    (found,) = lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "strange")["status"]["conditions"]
    assert (found["type"], found["status"]) == ("Ready", "True")
