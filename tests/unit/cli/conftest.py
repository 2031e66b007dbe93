"""A small cluster in files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

MANIFESTS = """
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements: [{key: kubernetes.io/arch, operator: In, values: [amd64]}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: cart, namespace: shop}
spec:
  replicas: 2
  template:
    metadata: {labels: {app: cart}}
    spec: {containers: [{name: c, resources: {requests: {cpu: 1500m}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: huge, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: 99}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: small, namespace: shop}
spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: old, labels: {kubernetes.io/arch: amd64, kubernetes.io/os: linux}}
status: {allocatable: {cpu: 500m, memory: 1Gi, pods: 10}, conditions: [{type: Ready, status: "True"}]}
"""
OFFERING = {"zone": "z1", "capacityType": "on-demand", "price": 0.1}
CATALOG = {
    "instanceTypes": [
        {
            "name": "m.small",
            "requirements": {"kubernetes.io/arch": ["amd64"], "kubernetes.io/os": ["linux"]},
            "capacity": {"cpu": "4", "memory": "16Gi", "pods": "40"},
            "offerings": [OFFERING],
        }
    ]
}


@pytest.fixture
def cluster(tmp_path: Path) -> list[str]:
    """The arguments for a cluster of one pool, four pods and an unmanaged node."""
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "all.yaml").write_text(MANIFESTS)
    (tmp_path / "catalog.json").write_text(json.dumps(CATALOG))
    now = "2026-11-20T00:00:00Z"
    return ["-f", str(tmp_path / "cluster"), "--catalog", str(tmp_path / "catalog.json"), "--now", now]
