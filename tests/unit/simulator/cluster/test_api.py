"""Functions must meet the same answers here as from a real API server, or they pass here and fail there."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.ports import ConflictError, DeniedError, NotFoundError, TransientError
from core.api.objects import JsonObject
from core.manifests.wire import resources
from simulator.cluster.api import selection
from tests.unit.simulator.cluster.world import World, a_node, a_node_claim, a_node_pool, a_pod, a_workload


def test_a_list_holds_every_object_by_namespace_and_name_and_follows_changes(world: World) -> None:
    world.cluster.apply([a_pod("b"), a_pod("a")])
    api = world.cluster.api
    first = api.list(resources.PODS)
    assert [pod.metadata.name for pod in first.items] == ["a", "b"]
    assert api.list(resources.PODS) is first
    world.cluster.delete("Pod", "default", "a")
    assert [pod.metadata.name for pod in api.list(resources.PODS).items] == ["b"]


def test_one_object_that_cannot_be_read_never_loses_the_others(world: World) -> None:
    world.cluster.apply([a_node("broken"), a_node("fine")])
    world.cluster.api.patch(resources.NODES, "broken", {"metadata": {"labels": {"a": 5}}})
    listing = world.cluster.api.list(resources.NODES)
    assert [(node.metadata.name, bool(node.unreadable)) for node in listing.items] == [
        ("broken", True),
        ("fine", False),
    ]


def test_a_patch_with_a_stale_version_is_refused(world: World) -> None:
    world.cluster.apply([a_node("n1")])
    version = world.cluster.nodes()[0]["metadata"]["resourceVersion"]
    body: JsonObject = {"metadata": {"resourceVersion": version, "labels": {"a": "b"}}}
    world.cluster.api.patch(resources.NODES, "n1", body)
    with pytest.raises(ConflictError):
        world.cluster.api.patch(resources.NODES, "n1", body)


def test_a_null_removes_a_field_and_nothing_new_is_no_change(world: World) -> None:
    world.cluster.apply([a_node("n1")])
    api = world.cluster.api
    api.patch(resources.NODES, "n1", {"metadata": {"labels": {"a": "b"}}})
    version = world.cluster.nodes()[0]["metadata"]["resourceVersion"]
    api.patch(resources.NODES, "n1", {"metadata": {"labels": {"a": "b"}}})
    assert world.cluster.nodes()[0]["metadata"]["resourceVersion"] == version
    api.patch(resources.NODES, "n1", {"metadata": {"labels": {"a": None}}})
    assert "a" not in world.cluster.nodes()[0]["metadata"]["labels"]


def test_binding_a_pod_leaves_its_generation_and_other_changes_of_its_spec_raise_it(world: World) -> None:
    """A pod above generation 1 counts as resized: disrupt then reads what made it."""
    world.cluster.apply([a_node("n1"), a_pod("a")])
    api = world.cluster.api

    def pod() -> JsonObject:
        return next(iter(world.cluster.objects("Pod")))

    api.bind("default", "a", uid=pod()["metadata"]["uid"], node="n1")
    assert (pod()["spec"]["nodeName"], pod()["metadata"]["generation"]) == ("n1", 1)
    api.patch(resources.PODS, "a", {"spec": {"activeDeadlineSeconds": 5}}, namespace="default")
    assert pod()["metadata"]["generation"] == 2


def test_the_status_is_only_reached_through_its_subresource(world: World) -> None:
    world.cluster.apply([a_node_pool("default", weight=1)])
    api = world.cluster.api
    api.patch(resources.NODE_POOLS, "default", {"spec": {"weight": 2}, "status": {"nodes": 1}})
    api.patch(resources.NODE_POOLS, "default", {"spec": {"weight": 3}, "status": {"nodes": 2}}, subresource="status")
    assert api.get(resources.NODE_POOLS, "default")["spec"]["weight"] == 2
    assert api.get(resources.NODE_POOLS, "default")["status"] == {"nodes": 2}


def test_creating_twice_conflicts_and_what_is_not_there_is_not_found(world: World) -> None:
    api = world.cluster.api
    claim = a_node_claim("c1")
    api.create(resources.NODE_CLAIMS, claim)
    with pytest.raises(ConflictError):
        api.create(resources.NODE_CLAIMS, claim)
    for call in (api.get, api.delete):
        with pytest.raises(NotFoundError):
            call(resources.NODES, "nowhere")


def test_a_deletion_with_another_uid_is_refused(world: World) -> None:
    world.cluster.apply([a_node("n1")])
    with pytest.raises(ConflictError):
        world.cluster.api.delete(resources.NODES, "n1", uid="another")
    world.cluster.api.delete(resources.NODES, "n1", uid=world.cluster.nodes()[0]["metadata"]["uid"])
    assert not world.cluster.nodes()


def test_finalizers_are_waited_for(world: World) -> None:
    api = world.cluster.api
    api.create(resources.NODE_CLAIMS, a_node_claim("c1", finalizers=["fleetwright.dev/hold"]))
    api.delete(resources.NODE_CLAIMS, "c1")
    assert "deletionTimestamp" in world.cluster.objects("NodeClaim")[0]["metadata"]
    api.patch(resources.NODE_CLAIMS, "c1", {"metadata": {"finalizers": None}})
    assert not world.cluster.objects("NodeClaim")
    assert [e["by"] for e in world.events("objectDeleted")] == ["program"]


def test_an_object_goes_with_the_last_of_its_owners(world: World) -> None:
    api = world.cluster.api
    for name in ("first", "second"):
        api.create(resources.NODE_CLAIMS, a_node_claim(name, uid=name))
    owners = [{"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "name": n, "uid": n} for n in ("first", "second")]
    api.create(resources.NODE_POOLS, a_node_pool("owned", {"ownerReferences": owners}))
    api.delete(resources.NODE_CLAIMS, "first")
    world.run(1)
    assert world.cluster.objects("NodePool")
    api.delete(resources.NODE_CLAIMS, "second")
    world.run(1)
    assert not world.cluster.objects("NodePool")


def test_what_a_caller_passes_in_may_change_later_without_effect(world: World) -> None:
    body = a_node_claim("c1", labels={"a": "b"})
    world.cluster.api.create(resources.NODE_CLAIMS, body)
    body["metadata"]["labels"]["a"] = "c"
    assert world.cluster.objects("NodeClaim")[0]["metadata"]["labels"] == {"a": "b"}


def test_a_fault_before_a_call_keeps_it_from_happening_and_one_after_it_does_not(world: World) -> None:
    seen: list[tuple[str, str]] = []

    def hook(call: str, moment: str) -> None:
        seen.append((call, moment))
        if (call, moment) in (("kube:create nodeclaims", "before"), ("kube:delete pods", "after")):
            raise TransientError(call, "throttled")

    world.cluster.apply([a_node("n1"), a_pod("p")])
    world.run(10)
    world.cluster.on_fault_point(hook)
    with pytest.raises(TransientError):
        world.cluster.api.create(resources.NODE_CLAIMS, a_node_claim("c1"))
    with pytest.raises(TransientError):
        world.cluster.api.delete(resources.PODS, "p", namespace="default")
    assert not world.cluster.objects("NodeClaim")
    assert "deletionTimestamp" in world.pod("p")["metadata"]
    world.cluster.api.patch(resources.NODES, "n1", {"status": {}}, subresource="status")
    assert seen[-2:] == [("kube:patch nodes/status", "before"), ("kube:patch nodes/status", "after")]


def test_the_audit_log_tells_of_unschedulable_and_deleted_pods_and_of_node_pools(world: World) -> None:
    heard: list[JsonObject] = []
    world.cluster.on_audit_event(heard.append)
    world.cluster.apply([a_pod("p"), a_node_pool("default")])
    world.run(1)
    world.cluster.delete("Pod", "default", "p")
    world.cluster.delete("NodePool", "", "default")
    references = [(e["verb"], e["objectRef"]["resource"], e["objectRef"].get("subresource")) for e in heard]
    assert references == [
        ("create", "nodepools", None),
        ("patch", "pods", "status"),
        ("delete", "pods", None),
        ("delete", "nodepools", None),
    ]
    assert {e["stage"] for e in heard} == {"ResponseComplete"}
    condition = heard[1]["requestObject"]["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "Unschedulable")
    assert heard[1]["stageTimestamp"] == "2026-11-20T00:00:00.300000Z"


def test_the_audit_log_has_no_bodies_of_karpenters_objects_and_no_name_that_the_server_chooses(world: World) -> None:
    """As on EKS: what only a body tells would work here, and only here."""
    heard: list[JsonObject] = []
    world.cluster.on_audit_event(heard.append)
    claim = a_node_claim("c1")
    generated = {**claim, "metadata": {"name": "c-x1", "generateName": "c-"}}
    world.cluster.apply([claim, generated])
    assert [entry["objectRef"].get("name") for entry in heard] == ["c1", None]
    assert {(entry["level"], "requestObject" in entry) for entry in heard} == {("Metadata", False)}


def test_a_running_pods_end_is_heard_when_it_is_asked_for_and_when_it_comes(world: World) -> None:
    heard: list[JsonObject] = []
    world.cluster.apply([a_node("n1"), a_workload("ReplicaSet", replicas=1)])
    world.run(10)
    world.cluster.on_audit_event(heard.append)
    world.cluster.scale("ReplicaSet", "default", "web", 0)
    world.run(10)
    users = [event["user"]["username"] for event in heard]
    assert [event["verb"] for event in heard] == ["delete", "delete"]
    assert users[1] == "system:node:n1"


# What the simulated API server selects.


POD: dict[str, Any] = {
    "metadata": {"name": "a", "namespace": "shop", "labels": {"team": "x", "tier": "web"}},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}
UNBOUND: dict[str, Any] = {"metadata": {"name": "b", "namespace": "shop"}, "spec": {}, "status": {"phase": "Pending"}}


@pytest.mark.parametrize(
    ("fields", "labels", "selected"),
    [
        ("", "", "ab"),
        ("spec.nodeName=n1", "", "a"),
        ("spec.nodeName==n1", "", "a"),
        ("spec.nodeName=", "", "b"),
        ("spec.nodeName!=", "", "a"),
        ("spec.nodeName=,status.phase=Pending", "", "b"),
        ("metadata.namespace=shop,metadata.name=a", "", "a"),
        ("", "team", "a"),
        ("", "!team", "b"),
        ("", "team=x,tier!=web", ""),
        ("", "team!=x", "b"),
        ("", "team in (x, y),tier notin (db)", "a"),
        ("", "team notin (x)", "b"),
        ("status.phase=Running", "team=y", ""),
    ],
)
def test_selectors_select_as_kubernetes_does(fields: str, labels: str, selected: str) -> None:
    """Where the simulated server selects others than the real one, all that is tried on it proves nothing."""
    is_selected = selection(resources.PODS, fields, labels)
    assert "".join(pod["metadata"]["name"] for pod in (POD, UNBOUND) if is_selected(pod)) == selected


@pytest.mark.parametrize(("kind", "field"), [(resources.NODES, "spec.providerID"), (resources.PODS, "spec.priority")])
def test_a_field_that_the_server_does_not_know_is_refused(kind: resources.Resource, field: str) -> None:
    """Taken for something that selects nothing, it would hide every object from a decision."""
    with pytest.raises(DeniedError, match=field):
        selection(kind, f"{field}=1", "")
