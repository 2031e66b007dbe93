"""Users change and delete NodePools, EC2NodeClasses and Nodes while pods run."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

from core import labels
from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

ONE_AT_A_TIME = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m", "budgets": [{"nodes": "1"}]}
HALF = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
}
A_NODE_EACH = "12"
"""CPUs of a pod that fills the largest type."""


def renamed(pool: dict[str, Any], name: str) -> dict[str, Any]:
    """The same NodePool under another name."""
    return {**pool, "metadata": {"name": name}}


def labelled(pool: dict[str, Any], **own: str) -> dict[str, Any]:
    """The same NodePool whose nodes carry these labels too."""
    changed = deepcopy(pool)
    changed["spec"]["template"]["metadata"] = {"labels": own}
    return changed


def disrupted(result: Result) -> list[str]:
    """Why nodes were tainted to go, in order."""
    return [found["reason"] for found in named(result, "nodeTainted") if found["key"] == labels.DISRUPTED_TAINT]


def test_nodes_follow_their_changed_template_one_after_another(tmp_path: Path) -> None:
    """If this failed, a changed NodePool would hold for new nodes only, or replace all nodes at once."""
    pool = node_pool(disruption=ONE_AT_A_TIME)
    steps = [{"at": "6m", "apply": [labelled(pool, team="blue")]}]
    result = play(tmp_path, pool, HALF, deployment(3, cpu=A_NODE_EACH), steps=steps, duration="40m")
    assert disrupted(result) == ["Drifted"] * 3
    joined = named(result, "nodeJoined")
    assert len(joined) == 6
    teams = {
        n["object"]["metadata"]["name"]: n["object"]["metadata"]["labels"].get("team") for n in named_nodes(result)
    }
    assert [teams[node["node"]] for node in joined] == [None] * 3 + ["blue"] * 3
    assert result.summary["podsPending"] == 0
    assert_lawful(result)


def test_a_pool_at_its_limits_replaces_its_drifted_nodes_without_a_gap(tmp_path: Path) -> None:
    """What a node holds of the limits is free once it begins to go: its replacement has room while it still runs."""
    pool = node_pool(disruption=ONE_AT_A_TIME, limits={"cpu": "48"})
    steps = [{"at": "8m", "apply": [labelled(pool, team="blue")]}]
    result = play(tmp_path, pool, deployment(3, cpu="12"), steps=steps, duration="50m")
    joined = {n["object"]["metadata"]["name"]: n["object"] for n in named_nodes(result)}
    cores = [int(node["status"]["capacity"]["cpu"]) for node in joined.values()]
    assert sum(cores[:3]) == 48
    assert disrupted(result) == ["Drifted"] * 3
    moves = [found.event for found in result.events if found.event in ("nodeJoined", "nodeDeleted")]
    assert moves == ["nodeJoined"] * 3 + ["nodeJoined", "nodeDeleted"] * 3
    assert (result.summary["nodesAtEnd"], result.summary["podsPending"]) == (3, 0)
    assert result.summary["limitViolations"] == 0
    assert_lawful(result)


def named_nodes(result: Result) -> list[dict[str, Any]]:
    """The labels of each node over time: the record's Node objects, later ones last."""
    return [found for found in named(result, "objectApplied") if found["kind"] == "Node"]


def test_nodes_follow_a_new_image(tmp_path: Path) -> None:
    """If this failed, nodes would keep an insecure image forever."""
    pool = node_pool(disruption=ONE_AT_A_TIME)
    steps = [{"at": "6m", "ami": {"alias": "al2023", "id": "ami-0new"}}]
    result = play(tmp_path, pool, deployment(2, cpu=A_NODE_EACH), steps=steps, duration="30m")
    assert disrupted(result) == ["Drifted"] * 2
    assert result.summary["podsPending"] == 0
    assert_lawful(result)


def test_an_unchanged_world_is_left_alone(tmp_path: Path) -> None:
    """If this failed, nodes would be replaced for nothing: by ours where hashes are made unlike, by another's for his own."""
    theirs = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "theirs",
            "labels": {labels.NODEPOOL: "default", labels.ZONE: "zone-a", labels.HOSTNAME: "theirs"},
            "annotations": {labels.NODEPOOL_HASH: "1", labels.NODEPOOL_HASH_VERSION: "v3"},
        },
        "spec": {"providerID": "aws:///zone-a/i-00000000000000001"},
        "status": {
            "capacity": {"cpu": "2", "memory": "8Gi", "pods": "10"},
            "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    pool = node_pool(disruption=ONE_AT_A_TIME)
    heavier = {**pool, "spec": {**pool["spec"], "weight": 3, "limits": {"cpu": "500"}}}
    steps = [{"at": "30m", "apply": [heavier]}]
    result = play(tmp_path, pool, theirs, deployment(2, cpu=A_NODE_EACH), steps=steps, duration="70m")
    assert disrupted(result) == []
    assert result.summary["nodesLaunched"] == 2
    assert_lawful(result)


def test_the_nodes_of_a_deleted_pool_are_drained_and_go(tmp_path: Path) -> None:
    """If this failed, deleting a NodePool would leave its machines running, or throw their pods out."""
    first, second = node_pool(weight=10), renamed(node_pool(), "other")
    steps = [{"at": "6m", "delete": [{"kind": "NodePool", "name": "default"}]}]
    result = play(tmp_path, first, second, HALF, deployment(4, cpu=A_NODE_EACH), steps=steps, duration="30m")
    pools = [found["tags"][labels.NODEPOOL] for found in named(result, "instanceLaunched")]
    assert pools == ["default"] * 4 + ["other"] * 4
    assert [found["by"] for found in named(result, "podEvicted")] == ["eviction"] * 4
    assert (result.summary["nodesAtEnd"], result.summary["podsPending"]) == (4, 0)
    assert_lawful(result)


def test_the_machine_of_a_deleted_node_is_ended_and_its_pods_go_elsewhere(tmp_path: Path) -> None:
    """If this failed, a Node that somebody deleted would be paid for, unseen, forever."""
    pool = node_pool()
    before = play(tmp_path, pool, deployment(2, cpu=A_NODE_EACH), duration="3m")
    node = named(before, "nodeJoined")[0]["node"]
    steps = [{"at": "6m", "delete": [{"kind": "Node", "name": node}]}]
    result = play(tmp_path, pool, deployment(2, cpu=A_NODE_EACH), steps=steps, duration="20m")
    assert result.summary["nodesLaunched"] == 3
    assert result.summary["nodesTerminated"] == 1
    assert (result.summary["nodesAtEnd"], result.summary["podsPending"]) == (2, 0)
    assert_lawful(result)


def test_a_typing_mistake_is_refused_and_stops_nothing(tmp_path: Path) -> None:
    """The API server keeps the pool as it was; nodes of the pool stay, and pods get more of them."""
    first, second = node_pool(weight=10), renamed(node_pool(), "other")
    broken = deepcopy(first)
    broken["spec"]["template"]["spec"]["requirements"] = [
        {"key": labels.ZONE, "operator": "Near", "values": ["zone-a"]}
    ]
    steps = [
        {"at": "6m", "apply": [broken]},
        {"at": "7m", "scale": {"kind": "Deployment", "name": "web", "replicas": 4}},
    ]
    result = play(tmp_path, first, second, deployment(2, cpu=A_NODE_EACH), steps=steps, duration="20m")
    pools = [found["tags"][labels.NODEPOOL] for found in named(result, "instanceLaunched")]
    assert pools == ["default"] * 4
    assert result.summary["nodesTerminated"] == 0
    assert result.summary["podsPending"] == 0
    assert_lawful(result)
