"""The status of a cluster names its nodes whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.__main__ import main

NODE = "ip-10-0-213-112.eu-central-1.compute.internal"
CLUSTER = f"""
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {{name: general}}
spec:
  template:
    spec:
      nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}
      requirements: []
---
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {{name: general-x7k2p, labels: {{karpenter.sh/nodepool: general}}}}
spec: {{nodeClassRef: {{group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}}, requirements: []}}
status: {{providerID: "aws:///eu-central-1a/i-0abc", nodeName: {NODE}}}
---
apiVersion: v1
kind: Node
metadata:
  name: {NODE}
  labels:
    karpenter.sh/nodepool: general
    karpenter.sh/capacity-type: on-demand
    node.kubernetes.io/instance-type: m5.xlarge
    topology.kubernetes.io/zone: eu-central-1a
    karpenter.sh/registered: "true"
    karpenter.sh/initialized: "true"
spec: {{providerID: "aws:///eu-central-1a/i-0abc"}}
status: {{allocatable: {{cpu: "4", memory: 14Gi, pods: "58"}}, conditions: [{{type: Ready, status: "True"}}]}}
"""


def test_names_and_types_of_nodes_are_not_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were wrapped in the middle of a word, so that nobody could copy or search for one."""
    (tmp_path / "cluster.yaml").write_text(CLUSTER, encoding="utf-8")
    assert main(["status", "-f", str(tmp_path / "cluster.yaml"), "--region", "eu-central-1", "-o", "wide"]) == 0
    row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("general-x7k2p"))
    assert row.split()[:3] == ["general-x7k2p", NODE, "m5.xlarge/on-demand/eu-central-1a"]
