"""The measured clusters: a number of nodes, and a working hour in which workloads grow and shrink."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Final

from benchmarks.cluster_objects import NODE_CLASS, deployment
from core.api.objects import JsonObject

WARM_UP: Final = timedelta(minutes=30)
"""Time until all nodes have joined and no work remains."""

MEASURED: Final = timedelta(hours=1)
PODS_A_NODE: Final = 4
DEPLOYMENTS: Final = 20
CHANGE_EVERY: Final = timedelta(minutes=10)
SHARE_CHANGED: Final = 0.2
"""The share of a Deployment's pods in each change. Two of twenty grow and then shrink: two hundredths of all pods."""


def scenario(folder: Path, nodes: int) -> Path:
    """Write the scenario of a cluster into `folder` and return its path."""
    path = folder / "scenario.yaml"
    spec = {
        "start": "2026-11-23T08:00:00Z",
        "duration": f"{(WARM_UP + MEASURED) // timedelta(minutes=1)}m",
        "seed": 1,
        "manifests": ["objects.yaml"],
        "steps": _changes(nodes),
    }
    document = {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "Scenario",
        "metadata": {"name": f"nodes-{nodes}"},
        "spec": spec,
    }
    path.write_text(json.dumps(document), encoding="utf-8")
    objects = {"apiVersion": "v1", "kind": "List", "items": [NODE_CLASS, _NODE_POOL, *_deployments(nodes)]}
    (folder / "objects.yaml").write_text(json.dumps(objects), encoding="utf-8")
    return path


def _deployments(nodes: int) -> list[JsonObject]:
    names = [f"work-{number}" for number in range(DEPLOYMENTS)] if nodes else []
    return [deployment(name, _replicas(nodes), cpu="850m", memory="2Gi") for name in names]


def _replicas(nodes: int) -> int:
    return max(1, nodes * PODS_A_NODE // DEPLOYMENTS)


def _changes(nodes: int) -> list[JsonObject]:
    if not nodes:
        return []
    steps, replicas = [], _replicas(nodes)
    more = max(1, round(replicas * SHARE_CHANGED))
    for turn in range(MEASURED // CHANGE_EVERY):
        at = f"{(WARM_UP + turn * CHANGE_EVERY + timedelta(minutes=2)) // timedelta(minutes=1)}m"
        to = replicas + more if turn % 2 == 0 else replicas
        for number in (turn // 2, DEPLOYMENTS - 1 - turn // 2):
            target = {"kind": "Deployment", "namespace": "default", "name": f"work-{number}", "replicas": to}
            steps.append({"at": at, "scale": target})
    return steps


_NODE_POOL: Final[JsonObject] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {
                        "key": "node.kubernetes.io/instance-type",
                        "operator": "In",
                        "values": ["m7g.xlarge", "m6g.xlarge"],
                    }
                ],
            }
        },
        "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "1m"},
    },
}
