"""Nodes that come too early, or die without consequence, would hide what a provisioner does wrong."""

from __future__ import annotations

import pytest

from core.api.objects import JsonObject
from core.manifests.wire import resources
from tests.unit.simulator.cluster.world import World, a_node, a_pod, a_workload, has_condition

HURRY = {"key": "hurry", "effect": "NoExecute"}


def taints(world: World, name: str) -> list[str]:
    node = next(node for node in world.cluster.nodes() if node["metadata"]["name"] == name)
    return sorted(f"{t['key']}:{t['effect']}" for t in node["spec"].get("taints", ()))


def test_a_node_joins_not_ready_and_becomes_ready_after_five_seconds(world: World) -> None:
    world.cluster.join_node(a_node("n1"), node_claim="default-abc")
    joined = world.events("nodeJoined")[0]
    assert (joined["node"], joined["nodeClaim"], joined["providerID"]) == (
        "n1",
        "default-abc",
        "aws:///us-east-1a/i-n1",
    )
    assert taints(world, "n1") == [f"node.kubernetes.io/not-ready:{e}" for e in ("NoExecute", "NoSchedule")]
    world.run(4.9)
    assert not has_condition(world.cluster.nodes()[0], "Ready")
    world.run(0.1)
    assert has_condition(world.cluster.nodes()[0], "Ready")
    assert taints(world, "n1") == []
    assert world.cluster.nodes()[0]["metadata"]["labels"]["topology.ebs.csi.aws.com/zone"] == "us-east-1a"


def test_its_own_taints_stay_when_it_becomes_ready(world: World) -> None:
    world.cluster.join_node(a_node("n1", taints=[{"key": "karpenter.sh/unregistered", "effect": "NoExecute"}]))
    world.run(10)
    assert taints(world, "n1") == ["karpenter.sh/unregistered:NoExecute"]


def test_a_lost_instance_is_noticed_deleted_and_its_pods_are_replaced(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_workload("Deployment", replicas=2), a_workload("DaemonSet", "agent", cpu="100m")])
    world.run(20)
    world.join("n2")
    world.run(20)
    world.cluster.lose_instance("aws:///us-east-1a/i-n1")
    world.run(39.9)
    assert not world.events("nodeNotReady")
    world.run(0.1)
    assert world.events("nodeNotReady") == [{"node": "n1"}]
    world.run(5)
    assert world.events("nodeDeleted") == [{"node": "n1", "by": "controller"}]
    world.run(45)
    evicted = world.events("podEvicted")
    assert {(e["by"], e["pod"].partition("-")[0]) for e in evicted} == {("nodeLost", "default/web")}
    assert set(world.where().values()) == {"n2"}
    assert len(world.ready("web")) == 2


def test_a_node_whose_instance_dies_before_it_is_ready_never_is(world: World) -> None:
    world.join("n1")
    world.run(2)
    world.cluster.lose_instance("aws:///us-east-1a/i-n1")
    world.run(20)
    assert not world.events("nodeReady")


def test_pods_of_a_deleted_node_are_collected(world: World) -> None:
    world.join("n1")
    world.cluster.apply([a_pod("p")])
    world.run(20)
    world.cluster.api.delete(resources.NODES, "n1")
    assert world.events("nodeDeleted") == [{"node": "n1", "by": "program"}]
    world.run(41)
    assert not world.pods()


def test_a_no_execute_taint_drives_out_who_does_not_tolerate_it(world: World) -> None:
    def tolerant(name: str, **more: int) -> JsonObject:
        return a_pod(name, tolerations=[{"key": "hurry", "operator": "Exists", **more}])

    world.cluster.apply([a_node("n1"), a_pod("leaves"), tolerant("stays"), tolerant("waits", tolerationSeconds=30)])
    world.run(10)
    world.patch_node("n1", {"taints": [HURRY]})
    world.run(5)
    assert set(world.where()) == {"stays", "waits"}
    world.run(30)
    assert set(world.where()) == {"stays"}
    assert {e["by"] for e in world.events("podDeleted")} == {"controller"}


def test_patience_ends_with_the_taint(world: World) -> None:
    pod = a_pod("p", tolerations=[{"key": "hurry", "operator": "Exists", "tolerationSeconds": 30}])
    world.cluster.apply([a_node("n1"), pod])
    world.run(10)
    world.patch_node("n1", {"taints": [HURRY]})
    world.run(20)
    world.patch_node("n1", {"taints": []})
    world.run(20)
    world.patch_node("n1", {"taints": [HURRY]})
    world.run(20)
    assert world.ready() == ["p"]
    world.run(20)
    assert not world.pods()


@pytest.mark.parametrize(("grace", "seconds"), [(30, 2.0), (1, 1.0), (0, 0.0)])
def test_a_pod_ends_within_its_grace(world: World, grace: int, seconds: float) -> None:
    world.cluster.apply([a_node("n1"), a_pod("p", terminationGracePeriodSeconds=grace)])
    world.run(10)
    world.evict("p")
    if seconds:
        world.run(seconds - 0.1)
        assert "deletionTimestamp" in world.pod("p")["metadata"]
        world.run(0.1)
    assert not world.pods()


def test_a_shorter_grace_hurries_a_pod_that_is_already_going(world: World) -> None:
    world.cluster.apply([a_node("n1"), a_pod("p")])
    world.run(10)
    world.evict("p")
    world.cluster.api.delete(resources.PODS, "p", namespace="default", grace_seconds=1)
    world.run(1)
    assert not world.pods()
    assert [e["by"] for e in world.events("podEvicted")] == ["eviction"]


def test_a_pod_that_waits_is_gone_at_once(world: World) -> None:
    world.cluster.apply([a_pod("p")])
    world.run(1)
    world.cluster.delete("Pod", "default", "p")
    assert world.events("podDeleted") == [{"pod": "default/p", "by": "user"}]


def test_a_node_from_a_manifest_runs_its_pods(world: World) -> None:
    world.cluster.apply([a_node("n1"), a_pod("p", nodeName="n1")])
    world.run(3)
    assert world.ready() == ["p"]
