"""An object that no API server would take must be refused by name, with nothing applied, not crash a run hours later."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from simulator.cluster.definitions import stored
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


def annotated(pod: JsonObject, seconds: str) -> JsonObject:
    pod["metadata"]["annotations"] = {"simulate.fleetwright.dev/run-seconds": seconds}
    return pod


def a_cron_job(schedule: str) -> JsonObject:
    template = {"spec": {"template": a_workload("Job")["spec"]["template"]}}
    return {"kind": "CronJob", "metadata": {"name": "tick"}, "spec": {"schedule": schedule, "jobTemplate": template}}


def nameless() -> JsonObject:
    pod = a_pod("p")
    del pod["metadata"]["name"]
    return pod


@pytest.mark.parametrize(
    ("obj", "subject", "field"),
    [
        (nameless(), "Pod default", "metadata.name"),
        (a_pod("p", cpu="-1"), "Pod default/p", "spec.containers[0].resources.requests.cpu"),
        (a_workload("Deployment", cpu="much"), "Deployment default/web", "spec.template.spec.containers[0]"),
        (
            {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {}},
            "Deployment d",
            "spec.template.spec.containers",
        ),
        (a_pod("p", tolerations="all"), "Pod default/p", "spec.tolerations"),
        (annotated(a_pod("p"), "soon"), "Pod default/p", "run-seconds"),
        (a_cron_job("at noon"), "CronJob tick", "spec.schedule"),
        (a_cron_job("0 0 31 2 *"), "CronJob tick", "spec.schedule"),
        (a_node("n", cpu="-4"), "Node n", "status.capacity.cpu"),
    ],
)
def test_what_is_wrong_is_named_and_nothing_is_applied(world: World, obj: JsonObject, subject: str, field: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        world.cluster.apply([a_pod("fine"), obj])
    assert subject in str(caught.value)
    assert field in str(caught.value)
    assert not world.pods()


# The embedded API server stores objects of ours as our CustomResourceDefinitions let a real one.


def a_pool(**spec: Any) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    template = {"spec": {"nodeClassRef": reference, "requirements": []}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "p", "labels": {"team": "a"}},
        "spec": {"template": template, **spec},
    }


def refused_field(obj: dict[str, Any], old: dict[str, Any] | None = None) -> str:
    with pytest.raises(InvalidInputError) as caught:
        stored(resources.NODE_POOLS, obj, old)
    return caught.value.field


def test_defaults_are_filled_in_and_unknown_fields_dropped() -> None:
    """As kubectl shows the object afterwards."""
    pool = stored(resources.NODE_POOLS, a_pool(colour="red"))
    assert "colour" not in pool["spec"]
    assert pool["spec"]["disruption"]["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert pool["metadata"] == a_pool()["metadata"]


def test_what_the_schema_or_a_rule_does_not_admit_is_refused() -> None:
    """A maximum, a type, and a rule in CEL."""
    assert refused_field(a_pool(weight=500)) == "spec.weight"
    assert refused_field(a_pool(weight="many")) == "spec.weight"
    few = a_pool()
    entry = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"], "minValues": 2}
    few["spec"]["template"]["spec"]["requirements"] = [entry]
    assert refused_field(few).startswith("spec.template.spec.requirements")


def test_transition_rules_hold_for_changes() -> None:
    """A NodePool becomes neither static nor dynamic, and keeps the group of its class."""
    old = stored(resources.NODE_POOLS, a_pool())
    assert refused_field(a_pool(replicas=2), old) == "spec.replicas"
    stored(resources.NODE_POOLS, a_pool(replicas=2))
    moved = copy.deepcopy(old)
    moved["spec"]["template"]["spec"]["nodeClassRef"]["group"] = "other.io"
    assert refused_field(moved, old).endswith("nodeClassRef.group")


def test_other_kinds_are_stored_as_they_are() -> None:
    """They have no definition of ours."""
    pod = {"metadata": {"name": "p"}, "spec": {"colour": "red"}}
    assert stored(resources.PODS, pod) is pod


# The record is what a run is judged by: it must say what happened, who did it, and the same for the same seed.


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
    full_story = ["podCreated", "podBound", "podReady", "podEvicted", "podDeleted"]
    assert sorted(map(len, story.values())) == [3, 3, 3, 5, 5, 5]
    assert all(events == full_story[: len(events)] for events in story.values())


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
    events = world.events("objectApplied")
    assert [(e["kind"], e["name"], e["namespace"], e["by"]) for e in events] == [
        ("Event", "web.1", "default", "program")
    ] * 2
    assert [e["object"]["count"] for e in events] == [1, 2]


def test_kinds_of_one_name_are_stored_apart() -> None:
    """If this failed, the coscheduling plugin's PodGroups would overwrite Kubernetes' own, and nobody would find them."""
    world = World()
    kinds = (resources.POD_GROUPS, resources.COSCHEDULING_POD_GROUPS, resources.VOLCANO_POD_GROUPS)
    metadata = {"name": "g", "namespace": "default"}
    for kind in kinds:
        world.cluster.apply([{"apiVersion": kind.api_version, "kind": "PodGroup", "metadata": metadata, "spec": {}}])
    other = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "Workload", "metadata": metadata, "spec": {}}
    world.cluster.apply([other])
    stored_kinds = [kind for kind in (*kinds, resources.WORKLOADS) if world.cluster.store.all(kind)]
    assert stored_kinds == list(kinds)
    world.cluster.delete("PodGroup", "default", "g", api_version="scheduling.x-k8s.io/v1alpha1")
    assert [kind for kind in kinds if world.cluster.store.all(kind)] == [kinds[0], kinds[2]]
    with pytest.raises(InvalidInputError):
        world.cluster.delete("Workload", "default", "g", api_version="kueue.x-k8s.io/v1beta2")


@pytest.mark.parametrize(
    ("resource", "obj", "status"),
    [
        (resources.NODE_POOLS, a_node_pool("a"), {"nodes": 3}),
        (resources.EC2_NODE_CLASSES, a_node_class("a"), {"instanceProfile": "nodes"}),
        (resources.NODE_CLAIMS, a_node_claim("a"), {"nodeName": "n1"}),
    ],
    ids=lambda events: events.kind if isinstance(events, Resource) else "",
)
def test_the_status_that_functions_write_is_told_once(resource: Resource, obj: JsonObject, status: JsonObject) -> None:
    """If this failed, a NodePool's or NodeClaim's conditions would be missing in the record, or repeated in it."""
    world = World()
    world.cluster.apply([obj])
    for _ in range(2):
        world.cluster.api.patch(resource, "a", {"status": status}, subresource="status")
    events = world.events("objectApplied")
    assert [(e["kind"], e["by"], e["object"].get("status")) for e in events] == [
        (resource.kind, "user", None),
        (resource.kind, "program", status),
    ]
