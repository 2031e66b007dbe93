"""The record is what a run is judged by: it must say what happened, who did it, and the same for the same seed."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from tests.hash_seeds import outputs_of
from tests.unit.simulator.cluster.world import (
    World,
    a_budget,
    a_node,
    a_node_claim,
    a_node_class,
    a_node_pool,
    a_pod,
    a_workload,
)

DISRUPTED = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}


def busy_day() -> bytes:
    """An hour with a bit of everything, as lines of the record."""
    world = World()
    world.cluster.apply([a_workload("Deployment", replicas=5), a_budget(maxUnavailable="20%")])
    world.cluster.apply([a_workload("Deployment", f"app-{i}", replicas=1, cpu="100m") for i in range(12)])
    world.cluster.apply([a_workload("DaemonSet", "agent", cpu="100m"), a_workload("StatefulSet", "db", replicas=3)])
    world.run(30)
    world.join("n1", "n2", cpu="8")
    world.run(60)
    world.evict(world.ready("web")[0])
    world.cluster.apply([a_workload("Deployment", replicas=7, cpu="500m")])
    world.cluster.lose_instance("aws:///us-east-1a/i-n2")
    world.run(3600)
    return b"\n".join(event.to_line() for event in world.record)


def test_one_seed_gives_one_record_whatever_the_hash_seed() -> None:
    script = f"import sys; sys.stdout.buffer.write(__import__('{__name__}', fromlist=['x']).busy_day())"
    assert outputs_of(script, ("1", "2")) == {busy_day()}


def test_every_bound_pod_was_created_before_and_every_evicted_one_is_deleted_after() -> None:
    world = World()
    world.join("n1")
    world.cluster.apply([a_workload("Deployment", replicas=3)])
    world.run(20)
    for name in world.ready():
        world.evict(name)
    world.run(20)
    story: dict[str, list[str]] = {}
    for event in world.record:
        if event.event.startswith("pod"):
            story.setdefault(event.fields["pod"], []).append(event.event)
    whole = ["podCreated", "podBound", "podReady", "podEvicted", "podDeleted"]
    assert sorted(map(len, story.values())) == [3, 3, 3, 5, 5, 5]
    assert all(events == whole[: len(events)] for events in story.values())


def test_the_record_tells_who_did_it() -> None:
    world = World()
    world.cluster.apply([a_node("n1"), a_pod("forced"), a_pod("evicted"), a_pod("by-hand")])
    world.run(10)
    world.cluster.api.delete(resources.PODS, "forced", namespace="default")
    world.evict("evicted")
    world.cluster.delete("Pod", "default", "by-hand")
    world.run(10)
    assert {e["pod"]: e["by"] for e in world.events("podEvicted")} == {
        "default/forced": "forced",
        "default/evicted": "eviction",
    }
    assert {e["pod"]: e["by"] for e in world.events("podDeleted")} == {
        "default/forced": "program",
        "default/evicted": "program",
        "default/by-hand": "user",
    }


def test_the_disruption_taint_comes_with_its_reason() -> None:
    world = World()
    world.cluster.apply([a_node("n1")])
    annotations = {"metadata": {"annotations": {"fleetwright.dev/disruption-reason": "Empty"}}}
    world.cluster.api.patch(resources.NODES, "n1", {**annotations, "spec": {"taints": [DISRUPTED]}})
    world.patch_node("n1", {"taints": []})
    told = {"node": "n1", "key": DISRUPTED["key"], "effect": "NoSchedule", "by": "program", "reason": "Empty"}
    assert world.events("nodeTainted") == [told]
    assert world.events("nodeUntainted") == [told]


def test_a_status_is_no_news_but_labels_and_sizes_are() -> None:
    world = World()
    world.cluster.apply([a_workload("Deployment", replicas=1), a_node("n1")])
    world.run(20)
    seen = len(world.events("objectApplied"))
    world.cluster.api.patch(resources.NODES, "n1", {"status": {"note": "x"}}, subresource="status")
    world.run(5)
    assert len(world.events("objectApplied")) == seen
    world.cluster.api.patch(resources.NODES, "n1", {"metadata": {"labels": {"a": "b"}}})
    world.cluster.scale("Deployment", "default", "web", 0)
    latest = world.events("objectApplied")[seen:]
    assert [(e["kind"], e["name"], e["by"]) for e in latest] == [
        ("Node", "n1", "program"),
        ("Deployment", "web", "user"),
    ]
    assert latest[1]["object"]["spec"]["replicas"] == 0


def test_events_are_told() -> None:
    """If this failed, nobody could see in the record what users were told."""
    world = World()
    told = {"involvedObject": {"kind": "Pod", "name": "web"}, "reason": "NoOfferingFits", "count": 1}
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "web.1", "namespace": "default"}, **told}
    world.cluster.api.create(resources.EVENTS, event, "default")
    world.cluster.api.patch(resources.EVENTS, "web.1", {"count": 2}, namespace="default")
    found = world.events("objectApplied")
    assert [(e["kind"], e["name"], e["namespace"], e["by"]) for e in found] == [
        ("Event", "web.1", "default", "program")
    ] * 2
    assert [e["object"]["count"] for e in found] == [1, 2]


@pytest.mark.parametrize(
    ("resource", "obj", "status"),
    [
        (resources.NODE_POOLS, a_node_pool("a"), {"nodes": 3}),
        (resources.EC2_NODE_CLASSES, a_node_class("a"), {"instanceProfile": "nodes"}),
        (resources.NODE_CLAIMS, a_node_claim("a"), {"nodeName": "n1"}),
    ],
    ids=lambda found: found.kind if isinstance(found, Resource) else "",
)
def test_the_status_that_functions_write_is_told_once(resource: Resource, obj: JsonObject, status: JsonObject) -> None:
    """If this failed, a NodePool's or NodeClaim's conditions would be missing in the record, or repeated in it."""
    world = World()
    world.cluster.apply([obj])
    for _ in range(2):
        world.cluster.api.patch(resource, "a", {"status": status}, subresource="status")
    found = world.events("objectApplied")
    assert [(e["kind"], e["by"], e["object"].get("status")) for e in found] == [
        (resource.kind, "user", None),
        (resource.kind, "program", status),
    ]
