"""Capacity reservations and capacity blocks through the real handlers: found, planned for, launched into, left in time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core import labels
from simulator.world import Result
from tests.builders import a_class_manifest
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play

OURS: dict[str, Any] = {"id": "cr-1", "instanceType": "test.large", "zone": "zone-a", "total": 2}
BLOCK: dict[str, Any] = {**OURS, "id": "cr-block", "type": "capacity-block"}
TYPES = ["reserved", "spot", "on-demand"]


def node_class(*terms: dict[str, Any]) -> dict[str, Any]:
    return a_class_manifest(capacityReservationSelectorTerms=list(terms or ({"id": "cr-1"},)))


def pool(capacity_types: list[str] = TYPES, **spec: Any) -> dict[str, Any]:
    manifest = node_pool(**spec)
    manifest["spec"]["template"]["spec"]["requirements"][0]["values"] = capacity_types
    return manifest


def launched(result: Result) -> list[str]:
    return [event["capacityType"] for event in named(result, "instanceLaunched")]


def last(result: Result, kind: str, name: str = "") -> dict[str, Any]:
    objects = [o["object"] for o in named(result, "objectApplied") if o["kind"] == kind and name in o["name"]]
    return dict(objects[-1])


def refused(result: Result) -> list[str]:
    return [event["code"] for event in named(result, "launchRefused")]


def test_paid_places_are_used_first_and_no_more_than_there_are(tmp_path: Path) -> None:
    result = play(tmp_path, node_class(), pool(), deployment(3, cpu="12"), capacityReservations=[OURS], duration="10m")
    assert_lawful(result)
    assert sorted(launched(result)) == ["reserved", "reserved", "spot"]
    assert refused(result) == []
    status = last(result, "EC2NodeClass")["status"]
    assert status["capacityReservations"] == [
        {
            "id": "cr-1",
            "instanceType": "test.large",
            "availabilityZone": "zone-a",
            "ownerID": "123456789012",
            "instanceMatchCriteria": "targeted",
            "reservationType": "default",
            "state": "active",
        }
    ]
    ready = {c["type"]: c["status"] for c in status["conditions"]}
    assert ready["CapacityReservationsReady"] == ready["Ready"] == "True"
    nodes = [o["object"]["metadata"]["labels"] for o in named(result, "objectApplied") if o["kind"] == "Node"]
    reserved = [node for node in nodes if node.get(labels.CAPACITY_TYPE) == "reserved"]
    assert {node_labels[labels.RESERVATION_ID] for node_labels in reserved if labels.RESERVATION_ID in node_labels} == {
        "cr-1"
    }
    assert {
        node_labels[labels.RESERVATION_TYPE] for node_labels in reserved if labels.RESERVATION_TYPE in node_labels
    } == {"default"}


def test_pods_that_come_later_find_only_the_places_that_are_left(tmp_path: Path) -> None:
    """The claims in a reservation are counted, not only what EC2 said two minutes ago."""
    later = [{"at": s, "scale": {"kind": "Deployment", "name": "web", "replicas": n}} for s, n in ((60, 2), (90, 3))]
    result = play(
        tmp_path,
        node_class(),
        pool(),
        deployment(1, cpu="12"),
        steps=later,
        capacityReservations=[OURS],
        duration="10m",
    )
    assert_lawful(result)
    assert launched(result) == ["reserved", "reserved", "spot"]
    assert refused(result) == []


def test_a_place_that_somebody_took_meanwhile_is_remembered_and_other_capacity_bought(tmp_path: Path) -> None:
    steps = [
        {"at": 50, "capacityReservation": {**OURS, "others": 2}},
        {"at": 55, "apply": [deployment(2, cpu="12")]},
    ]
    result = play(tmp_path, node_class(), pool(), steps=steps, capacityReservations=[OURS], duration="10m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 2
    assert "ReservationCapacityExceeded" in refused(result)
    assert len(refused(result)) <= 2
    assert set(launched(result)) == {"spot"}


def test_nothing_is_launched_into_a_reservation_that_the_class_does_not_select(tmp_path: Path) -> None:
    open_one = {**OURS, "instanceMatchCriteria": "open"}
    result = play(
        tmp_path,
        node_class({"tags": {"team": "ml"}}),
        pool(["reserved", "on-demand"]),
        deployment(1, cpu="12"),
        capacityReservations=[open_one],
        duration="5m",
    )
    assert_lawful(result)
    assert launched(result) == ["on-demand"]


@pytest.mark.ci
def test_a_drifted_node_of_a_full_reservation_goes_before_its_replacement_comes(tmp_path: Path) -> None:
    """Where only the reservation may be used its pods have no other place, and it would stay drifted for ever."""
    edited = pool(["reserved"])
    edited["spec"]["template"]["metadata"] = {"labels": {"example.com/edited": "yes"}}
    result = play(
        tmp_path,
        node_class(),
        pool(["reserved"]),
        deployment(2, cpu="12"),
        steps=[{"at": "8m", "apply": [edited]}],
        capacityReservations=[OURS],
        duration="40m",
    )
    assert_lawful(result)
    assert launched(result) == ["reserved"] * 4
    assert (result.summary["nodesAtEnd"], result.summary["podsPending"]) == (2, 0)
    went = [event.t for event in result.events if event.event == "instanceTerminated"]
    came = [event.t for event in result.events if event.event == "instanceLaunched"][2:]
    assert went[0] < came[0] < went[1] < came[1]


def test_without_the_gate_reservations_are_left_to_ec2(tmp_path: Path) -> None:
    result = play(
        tmp_path,
        node_class(),
        pool(),
        deployment(1, cpu="12"),
        capacityReservations=[OURS],
        featureGates={"ReservedCapacity": False},
        duration="5m",
    )
    assert launched(result) == ["spot"]
    status = last(result, "EC2NodeClass")["status"]
    assert "CapacityReservationsReady" not in {c["type"] for c in status["conditions"]}


@pytest.mark.ci
def test_instances_of_a_reservation_that_ends_run_on_as_on_demand_ones(tmp_path: Path) -> None:
    """Their price is no longer paid, which the summary's dollars say from then on."""
    result = play(
        tmp_path,
        node_class(),
        pool(["reserved", "on-demand"]),
        deployment(2, cpu="12"),
        capacityReservations=[{**OURS, "ends": "10m"}],
        duration="40m",
    )
    assert_lawful(result)
    assert launched(result) == ["reserved", "reserved"]
    assert happened(result, "instanceTerminated") == []
    node, claim = last(result, "Node")["metadata"], last(result, "NodeClaim")["metadata"]
    for obj in (node, claim):
        assert obj["labels"][labels.CAPACITY_TYPE] == "on-demand"
        assert labels.RESERVATION_ID not in obj["labels"]
    assert 0.7 < result.summary["dollars"] < 0.9  # two machines at 0.8 dollars for half an hour


@pytest.mark.ci
def test_nodes_leave_a_reservation_that_the_class_no_longer_selects(tmp_path: Path) -> None:
    steps = [{"at": "10m", "apply": [node_class({"tags": {"team": "ml"}})]}]
    result = play(
        tmp_path,
        node_class(),
        pool(["reserved", "on-demand"]),
        deployment(2, cpu="12"),
        steps=steps,
        capacityReservations=[OURS],
        duration="40m",
    )
    assert_lawful(result)
    assert launched(result) == ["reserved", "reserved", "on-demand", "on-demand"]
    reasons = {event.fields.get("reason") for event in happened(result, "nodeTainted")}
    assert reasons == {"Drifted"}


@pytest.mark.ci
def test_a_block_that_has_not_begun_or_is_about_to_end_takes_nothing(tmp_path: Path) -> None:
    blocks = [{**BLOCK, "starts": "20m"}, {**BLOCK, "id": "cr-old", "ends": "39m"}]
    both = node_class({"id": "cr-block"}, {"id": "cr-old"})
    result = play(
        tmp_path, both, pool(["reserved"]), deployment(1, cpu="12"), capacityReservations=blocks, duration="30m"
    )
    assert_lawful(result)
    (launch,) = happened(result, "instanceLaunched")
    assert launch.fields["capacityType"] == "reserved"
    assert "2026-11-20T00:20" <= launch.t < "2026-11-20T00:22"  # `provision` runs each minute, `reconcile` every two


@pytest.mark.ci
def test_a_block_that_has_not_begun_is_announced_and_pods_learn_when_it_begins(tmp_path: Path) -> None:
    result = play(
        tmp_path,
        node_class({"id": "cr-block"}),
        pool(["reserved"]),
        deployment(1, cpu="12"),
        capacityReservations=[{**BLOCK, "starts": "20m", "ends": "3h"}],
        duration="10m",
    )
    assert_lawful(result)
    assert launched(result) == refused(result) == []
    status = last(result, "EC2NodeClass")["status"]
    assert status["capacityReservations"] == []
    (condition,) = [c for c in status["conditions"] if c["type"] == "CapacityReservationsReady"]
    announced = "capacity block cr-block (2 test.large in zone-a) begins at 2026-11-20T00:20:00Z"
    assert (condition["status"], condition["message"]) == ("True", announced)
    told = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "Event"]
    (event,) = {o["message"] for o in told if o["involvedObject"]["kind"] == "Pod" and "cr-block" in o["message"]}
    assert "capacity reservation cr-block takes nodes once it has begun, at 2026-11-20 00:20 UTC" in event


def test_a_node_in_a_block_that_began_since_the_last_reading_has_not_drifted(tmp_path: Path) -> None:
    """EC2 cannot be asked in the minutes around the start; the node's reservation is in no status yet."""
    fault = {"call": "ec2:DescribeCapacityReservations", "kind": "throttle", "for": "30m"}
    result = play(
        tmp_path,
        node_class({"id": "cr-block"}),
        pool(["reserved"]),
        deployment(1, cpu="12"),
        steps=[{"at": "15m", "fault": fault}],
        capacityReservations=[{**BLOCK, "starts": "20m", "ends": "5h"}],
        duration="40m",
    )
    assert_lawful(result)
    assert launched(result) == ["reserved"]
    assert happened(result, "nodeTainted") == []


@pytest.mark.ci
def test_nothing_moves_into_a_block_that_is_about_to_end(tmp_path: Path) -> None:
    """Its nodes leave it in six minutes; consolidation launched one, moved the pods, and their drain began at once."""
    result = play(
        tmp_path,
        node_class({"id": "cr-block"}),
        pool(["reserved", "spot"]),
        deployment(2, cpu="12"),
        capacityReservations=[{**BLOCK, "starts": "6m", "ends": "52m"}],
        duration="60m",
    )
    assert_lawful(result)
    assert launched(result) == ["spot", "spot"]
    assert happened(result, "nodeTainted") == []


def test_consolidation_keeps_out_of_a_block_for_the_hours_before_its_end(tmp_path: Path) -> None:
    """Pods that wait still use it; those that have a place would move twice."""
    result = play(
        tmp_path,
        node_class({"id": "cr-block"}),
        pool(["reserved", "spot"]),
        deployment(1, cpu="12"),
        steps=[{"at": "20m", "scale": {"kind": "Deployment", "name": "web", "replicas": 2}}],
        capacityReservations=[{**BLOCK, "starts": "6m", "ends": "3h"}],
        duration="40m",
    )
    assert_lawful(result)
    assert launched(result) == ["spot", "reserved"]
    assert happened(result, "nodeTainted") == []


def test_an_interruptible_place_that_its_owner_takes_back_is_replaced_elsewhere(tmp_path: Path) -> None:
    steps = [{"at": "10m", "interrupt": {"zone": "zone-a"}}]
    result = play(
        tmp_path,
        node_class(),
        pool(["reserved", "on-demand"]),
        deployment(1, cpu="12"),
        steps=steps,
        capacityReservations=[{**OURS, "interruptible": True}],
        duration="12m30s",
    )
    assert_lawful(result)
    assert launched(result) == ["reserved", "on-demand"]


# ProvisioningRequests of our class for blocks.


def a_request(pods: int, **parameters: str) -> list[dict[str, Any]]:
    """A PodTemplate, and a request for so many of its pods in the block."""
    template = deployment(1, cpu="12")["spec"]["template"]
    names = {"name": "train", "namespace": "default"}
    spec = {
        "provisioningClassName": "capacity-block.fleetwright.dev",
        "parameters": {"CapacityReservationID": "cr-block", **parameters},
        "podSets": [{"podTemplateRef": {"name": "train"}, "count": pods}],
    }
    return [
        {"apiVersion": "v1", "kind": "PodTemplate", "metadata": names, "template": template},
        {"apiVersion": "autoscaling.x-k8s.io/v1", "kind": "ProvisioningRequest", "metadata": names, "spec": spec},
    ]


def consumers(pods: int) -> dict[str, Any]:
    """A Job's pods as Kueue starts them: they name the request, and select its block."""
    job = deployment(pods, "train", cpu="12")
    template = job["spec"]["template"]
    template["metadata"]["annotations"] = {labels.CONSUMES_REQUEST: "train"}
    template["spec"]["nodeSelector"] = {labels.RESERVATION_ID: "cr-block"}
    template["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": pods, "completions": pods, "template": template}
    return {**job, "apiVersion": "batch/v1", "kind": "Job", "spec": spec}


def conditions_of(result: Result) -> list[tuple[str, str, str, str]]:
    """Each condition that the request had besides Accepted, in the order in which it was written."""
    written = [
        (c["type"], c["status"], c["reason"], c["message"])
        for o in named(result, "objectApplied")
        if o["kind"] == "ProvisioningRequest"
        for c in (o["object"].get("status") or {}).get("conditions") or ()
        if c["type"] != "Accepted"
    ]
    return list(dict.fromkeys(written))


def test_a_request_for_a_block_is_provisioned_at_its_start_and_its_nodes_leave_before_its_end(tmp_path: Path) -> None:
    result = play(
        tmp_path,
        node_class({"id": "cr-block"}),
        pool(["reserved", "spot"]),
        *a_request(2),
        steps=[{"at": "24m", "apply": [consumers(2)]}],
        capacityReservations=[{**BLOCK, "starts": "20m", "ends": "120m"}],
        duration="100m",
    )
    assert_lawful(result)
    assert launched(result) == ["reserved", "reserved"]
    assert all("2026-11-20T00:20" <= event.t < "2026-11-20T00:22" for event in happened(result, "instanceLaunched"))
    waits, *_, revoked = conditions_of(result)
    text = "capacity reservation cr-block begins at 2026-11-20 00:20 UTC; its nodes are launched then"
    assert waits == ("Provisioned", "False", "CapacityBlockNotBegun", text)
    (provisioned,) = {c[2] for c in conditions_of(result) if c[:2] == ("Provisioned", "True")}
    assert provisioned == "CapacityIsProvisioned"
    details = last(result, "ProvisioningRequest")["status"]["provisioningClassDetails"]
    assert details["CapacityReservationID"] == "cr-block"
    taints = happened(result, "nodeTainted")
    assert {event.fields["reason"] for event in taints} == {"CapacityBlockEnds"}
    assert all("2026-11-20T01:20" <= event.t < "2026-11-20T01:24" for event in taints)
    assert revoked[:3] == ("CapacityRevoked", "True", "CapacityBlockEnded")


@pytest.mark.parametrize(
    ("pods", "changes", "parameters", "reason"),
    [
        (3, {}, {}, "CapacityBlockTooSmall"),
        (1, {}, {"maxRunDurationSeconds": "7200"}, "CapacityBlockTooShort"),
        (1, {"id": "cr-other"}, {}, "CapacityBlockNotFound"),
        (1, {}, {"CapacityReservationID": ""}, "RequestInvalid"),
    ],
)
def test_a_request_that_no_block_can_serve_fails_and_nothing_is_launched(
    tmp_path: Path, pods: int, changes: dict[str, Any], parameters: dict[str, str], reason: str
) -> None:
    result = play(
        tmp_path,
        node_class({"id": "cr-block"}, {"id": "cr-other"}),
        pool(["reserved", "spot"]),
        *a_request(pods, **parameters),
        capacityReservations=[{**BLOCK, "starts": "20m", "ends": "120m", **changes}],
        duration="15m",
    )
    assert_lawful(result)
    assert conditions_of(result)[-1][:3] == ("Failed", "True", reason)
    assert launched(result) == []
