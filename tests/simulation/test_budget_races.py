"""Functions that let nodes go in the same second: the budgets hold for all of them together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

PROTECTED = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "old", "namespace": "default"},
    "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": "old"}}},
}


def apart(name: str, cpu: str) -> dict[str, Any]:
    """Two pods that share no node."""
    found = deployment(2, name=name, cpu=cpu)
    labels = found["spec"]["template"]["metadata"]["labels"]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": dict(labels)}}
    rule = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    found["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": rule}
    return found


def test_an_expiry_and_two_commands_at_once_stay_within_the_budget(tmp_path: Path) -> None:
    """Found by a seed: a write that came 1.5 s late, and three of three nodes went where two were allowed."""
    pool = node_pool()
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "2"}]
    pool["spec"]["template"]["spec"]["expireAfter"] = "11m30s"
    pool["spec"]["template"]["spec"]["requirements"] = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    ]
    slow = {"call": "dynamodb:*", "kind": "delay", "seconds": 1.5, "count": 3}
    steps = [
        {"at": 0, "events": {"kind": "duplicate", "count": 60}},
        {"at": "4m", "apply": [apart("small", "3"), apart("big", "10")]},
        {"at": "10m30s", "scale": {"kind": "Deployment", "name": "big", "replicas": 0}},
        {"at": "12m15s", "fault": slow},
    ]
    result = play(tmp_path, pool, PROTECTED, deployment(1, name="old", cpu="14"), steps=steps, duration="16m")
    assert len(named(result, "nodeTainted")) > 1
    assert_lawful(result)
