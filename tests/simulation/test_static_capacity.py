"""NodePools with replicas: a fixed number of nodes, whatever pods there are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

GATE = {"StaticCapacity": True}


def static_pool(replicas: int, **spec: Any) -> dict[str, Any]:
    return node_pool(replicas=replicas, **spec)


def nodes(result: Result) -> tuple[int, int, int]:
    """How many were launched, how many terminated, and how many there are at the end."""
    summary = result.summary
    return summary["nodesLaunched"], summary["nodesTerminated"], summary["nodesAtEnd"]


def test_a_pool_keeps_its_number_of_nodes(tmp_path: Path) -> None:
    """More, then fewer, and a lost one is replaced; pods do not matter."""
    steps = [
        {"at": "8m", "apply": [static_pool(4)]},
        {"at": "16m", "apply": [static_pool(1)]},
        {"at": "24m", "interrupt": {"fraction": 1.0}},
    ]
    result = play(tmp_path, static_pool(2), steps=steps, duration="34m", featureGates=GATE)
    joined = sorted(event.t[11:16] for event in result.events if event.event == "nodeJoined")
    assert [minute < "00:06" for minute in joined[:2]] == [True, True]
    assert nodes(result) == (5, 4, 1)
    tainted = {found["reason"] for found in named(result, "nodeTainted") if found.get("reason")}
    assert tainted <= {"ScaledDown", "SpotInterrupted"}
    assert_lawful(result)


def test_no_pod_makes_a_static_pool_larger(tmp_path: Path) -> None:
    """Its nodes take pods; a pod without a place gets no further one."""
    result = play(tmp_path, static_pool(1), deployment(3, cpu="12"), duration="12m", featureGates=GATE)
    assert result.summary["nodesAtEnd"] == 1
    assert result.summary["podsPending"] >= 2


def test_limits_bound_a_static_pool(tmp_path: Path) -> None:
    result = play(tmp_path, static_pool(4, limits={"nodes": "2"}), duration="10m", featureGates=GATE)
    assert nodes(result) == (2, 0, 2)
    assert_lawful(result)


def test_without_the_gate_nothing_is_launched(tmp_path: Path) -> None:
    result = play(tmp_path, static_pool(2), duration="10m")
    assert nodes(result) == (0, 0, 0)


def test_at_the_limit_a_drifted_node_goes_before_its_replacement_comes(tmp_path: Path) -> None:
    """Otherwise, a pool whose limit is its number of nodes drifts forever."""
    changed = static_pool(2, limits={"nodes": "2"})
    changed["spec"]["template"]["metadata"] = {"labels": {"team": "blue"}}
    steps = [{"at": "8m", "apply": [changed]}]
    result = play(tmp_path, static_pool(2, limits={"nodes": "2"}), steps=steps, duration="40m", featureGates=GATE)
    assert nodes(result) == (4, 2, 2)
    assert result.summary["limitViolations"] == 0
    assert_lawful(result)


def test_replicas_keep_within_the_free_addresses_of_subnets(tmp_path: Path) -> None:
    """EC2 refused the rest, which closed the subnets for pods, too."""
    few = [
        {"at": "0s", "subnet": {"zone": zone, "freeAddresses": free}} for zone, free in (("zone-a", 3), ("zone-b", 2))
    ]
    steps = [*few, {"at": "8m", "subnet": {"zone": "zone-b", "freeAddresses": 50}}]
    result = play(tmp_path, static_pool(9), steps=steps, duration="20m", featureGates=GATE)
    assert_lawful(result)
    assert not named(result, "launchRefused")
    joined = [event.t[11:16] for event in result.events if event.event == "nodeJoined"]
    assert len([minute for minute in joined if minute < "00:08"]) == 5
    assert nodes(result) == (9, 0, 9)
