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
    lab = Lab(feature_gates="CapacityBuffer=true")
    lab.kubernetes.put(
        {"kind": "PodTemplate", "metadata": {"name": "shape", "namespace": "default"}, "template": {"spec": POD}},
        a_buffer(podTemplateRef={"name": "shape"}, replicas=1),
    )
    return lab


def a_buffer(**spec: Any) -> JsonObject:
    return {
        "kind": "CapacityBuffer",
        "metadata": {"name": "spare", "namespace": "default", "generation": 3},
        "spec": spec,
    }


def conditions(lab: Lab) -> dict[str, tuple[str, str]]:
    status = lab.kubernetes.raw(resources.CAPACITY_BUFFERS, "spare", "default")["status"]
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in status["conditions"]}


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

    def fails(call: str) -> None:
        if call == "launch":
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


# ProvisioningRequests.


ATOMIC = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
CHECK = "check-capacity.autoscaling.x-k8s.io"
OWN_LABEL = "fleetwright.dev/provisioning-request"


def a_request(kind: str = ATOMIC, pods: int = 2, name: str = "train-1", **parameters: str) -> JsonObject:
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1",
        "kind": "ProvisioningRequest",
        "metadata": {"name": name, "namespace": "default", "creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u"},
        "spec": {
            "provisioningClassName": kind,
            "parameters": parameters,
            "podSets": [{"count": pods, "podTemplateRef": {"name": "member"}}],
        },
    }


def with_request(lab: Lab, request: JsonObject, cpu: str = "3") -> Lab:
    """A cluster with a request, made now, for pods that fill a node each."""
    now = lab.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
    request["metadata"]["creationTimestamp"] = now
    spec = {"containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}
    template = {
        "kind": "PodTemplate",
        "metadata": {"name": "member", "namespace": "default"},
        "template": {"spec": spec},
    }
    lab.kubernetes.put(template, request)
    return lab


def with_room() -> Lab:
    """A node with room for one of the pods, in a cluster whose API server has the definition."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p", cpu="100m"), a_request("queued.example.com", name="of-others"))
    lab.settle()
    lab.bind("p")
    return lab


def said(lab: Lab, name: str = "train-1") -> dict[str, tuple[str, str]]:
    status = lab.kubernetes.raw(resources.PROVISIONING_REQUESTS, name, "default").get("status", {})
    return {condition["type"]: (condition["status"], condition["reason"]) for condition in status.get("conditions", ())}


def message(lab: Lab, kind: str) -> str:
    status = lab.kubernetes.raw(resources.PROVISIONING_REQUESTS, "train-1", "default")["status"]
    return next(condition["message"] for condition in status["conditions"] if condition["type"] == kind)


def a_consumer(lab: Lab, name: str, value: str) -> JsonObject:
    pod = a_pending_pod(name, cpu="3")
    pod["metadata"]["annotations"] = {"autoscaling.x-k8s.io/consume-provisioning-request": "train-1"}
    pod["spec"]["nodeSelector"] = {OWN_LABEL: value}
    return pod


def provisioned(lab: Lab) -> str:
    """Buy a request's nodes; return the value of their label."""
    lab.provision()
    lab.boot()
    lab.tick(4)
    lab.provision()
    status = lab.kubernetes.raw(resources.PROVISIONING_REQUESTS, "train-1", "default")["status"]
    return str(status["provisioningClassDetails"]["ProvisioningRequest"])


def test_nodes_are_bought_for_a_request_and_carry_the_label_that_its_details_name() -> None:
    """Kueue makes a node selector of the detail, which it reads once, when Provisioned becomes True."""
    lab = with_request(Lab(), a_request())
    lab.provision()
    assert said(lab) == {"Accepted": ("True", "Accepted"), "Provisioned": ("False", "NodesStarting")}
    lab.provision()
    assert message(lab, "Provisioned").startswith("2 nodes are starting; ready at about ")
    lab.boot()
    lab.tick(4)
    lab.provision()
    status = lab.kubernetes.raw(resources.PROVISIONING_REQUESTS, "train-1", "default")["status"]
    assert said(lab)["Provisioned"] == ("True", "CapacityIsProvisioned")
    value = status["provisioningClassDetails"]["ProvisioningRequest"]
    nodes = [lab.kubernetes.raw(resources.NODES, name) for name in lab.kubernetes.names(resources.NODES)]
    assert [node["metadata"]["labels"][OWN_LABEL] for node in nodes] == [value, value]


def test_room_that_is_there_is_used_before_nodes_are_bought() -> None:
    lab = with_room()
    with_request(lab, a_request(pods=1), cpu="1")
    lab.provision()
    assert said(lab)["Provisioned"] == ("True", "CapacityIsFound")
    assert len(lab.claims) == 1
    assert (
        "provisioningClassDetails"
        not in lab.kubernetes.raw(resources.PROVISIONING_REQUESTS, "train-1", "default")["status"]
    )


def test_a_check_buys_nothing_and_fails_at_once_only_where_it_says_so() -> None:
    lab = with_request(Lab(), a_request(CHECK))
    lab.provision()
    assert said(lab)["Provisioned"] == ("False", "CapacityIsNotFound")
    assert "nodes that are there" in message(lab, "Provisioned")
    lab = with_request(Lab(), a_request(CHECK, noRetry="true"))
    lab.provision()
    assert said(lab)["Failed"] == ("True", "CapacityIsNotFound")
    assert lab.claims == ()


def test_booked_room_is_neither_given_to_another_request_nor_kept_for_longer_than_ten_minutes() -> None:
    lab = with_room()
    with_request(lab, a_request(CHECK, pods=1), cpu="1")
    lab.provision()
    with_request(lab, a_request(CHECK, pods=1, name="later"), cpu="1")
    lab.provision()
    assert said(lab, "later")["Provisioned"] == ("False", "CapacityIsNotFound")
    lab.clock.advance(minutes=10)
    lab.provision()
    lab.provision()
    assert said(lab)["BookingExpired"] == ("True", "CapacityReservationTimeExpired")
    assert said(lab, "later")["Provisioned"] == ("True", "CapacityIsFound")


def test_pods_take_over_what_was_bought_for_them() -> None:
    """Otherwise, each pod that comes finds its room booked, and another node is bought beside it."""
    lab = with_request(Lab(), a_request())
    value = provisioned(lab)
    lab.kubernetes.put(a_consumer(lab, "w-0", value), a_consumer(lab, "w-1", value))
    lab.provision()
    assert len(lab.claims) == 2


def test_a_request_that_finds_nothing_fails_when_its_time_is_over() -> None:
    lab = with_request(Lab(), a_request(pods=1, ValidUntilSeconds="60"), cpu="1000")
    lab.provision()
    assert said(lab)["Provisioned"] == ("False", "CapacityIsNotFound")
    lab.clock.advance(seconds=60)
    lab.provision()
    assert said(lab)["Failed"] == ("True", "Expired")


@pytest.mark.parametrize(
    ("request_", "outcome"),
    [
        (a_request(ValidUntilSeconds="soon"), ("Failed", "RequestInvalid")),
        (a_request(pods=9_999), ("Failed", "RequestInvalid")),
        (a_request("queued.fleetwright.dev"), ("Failed", "UnknownProvisioningClass")),
        (a_request("queued.example.com"), ()),
        (
            a_request() | {"spec": {**a_request()["spec"], "podSets": [{"count": 1, "podTemplateRef": {"name": "x"}}]}},
            ("Provisioned", "PodTemplateNotFound"),
        ),
    ],
)
def test_mistakes_have_a_reason_each(request_: JsonObject, outcome: tuple[str, ...]) -> None:
    lab = with_request(Lab(), request_)
    lab.provision()
    assert lab.claims == ()
    conditions = said(lab)
    assert (outcome[1] == conditions[outcome[0]][1]) if outcome else conditions == {}


def test_a_request_that_goes_while_its_nodes_start_leaves_nothing_to_do() -> None:
    """Kueue deletes it for its next attempt, or with the Job."""
    lab = with_request(Lab(), a_request())
    lab.provision()
    lab.kubernetes.drop(resources.PROVISIONING_REQUESTS, "train-1", "default")
    lab.boot()
    lab.tick(4)
    lab.provision()
    for _ in range(2):  # a budget lets one node go at a time
        lab.clock.advance(minutes=5)
        lab.disrupt()
        lab.tick(20)
    assert lab.claims == ()


# How rounds notice that objects changed, and write no more than what did.


def an_object(name: str, version: str, uid: str = "u") -> dict[str, Any]:
    return {"metadata": {"name": name, "uid": uid, "resourceVersion": version}}


def test_objects_are_the_same_by_name_uid_and_version_in_any_order() -> None:
    """Otherwise, an edited NodePool is seen with the next whole observation only."""
    first, other = an_object("a", "1"), an_object("b", "1")
    assert versions([first, other]) == versions([other, first])
    for changed in (an_object("b", "2"), an_object("b", "1", "v"), an_object("c", "1"), {}):
        assert versions([first, other]) != versions([first, changed])


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
    ("status", "requested", "reason"),
    [
        ("True", "", "Ready"),
        ("False", "", "ReadyFailed"),
        ("Unknown", "", "AwaitingReconciliation"),
        ("False", "SubnetsNotFound", "SubnetsNotFound"),
    ],
)
def test_a_condition_has_the_reason_that_is_usual_for_its_status(status: str, requested: str, reason: str) -> None:
    """Users and their tools wait for these words, which are Karpenter's."""
    assert condition("Ready", status, "why", reason=requested) == {
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
    (written,) = lab.kubernetes.raw(resources.EC2_NODE_CLASSES, "strange")["status"]["conditions"]
    assert (written["type"], written["status"]) == ("Ready", "True")
