"""The names and labels of the large cluster, which its API server, its table and EC2 agree on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

NOW: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)
TYPE: Final = "m5.4xlarge"
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
POOLS: Final = 50
SERVICES: Final = 500
NAMESPACES: Final = 40
WITH_VOLUME: Final = 50
"""One pod in this many has a volume."""

CREATED: Final = "2026-11-10T11:00:00Z"


def node_name(index: int) -> str:
    """Name of a node."""
    return f"ip-10-{index // 65536}-{index // 256 % 256}-{index % 256}.ec2.internal"


def instance_id(index: int) -> str:
    """Id of a node's instance."""
    return f"i-{index:017x}"


def claim_name(index: int) -> str:
    """Name of a node's claim."""
    return f"pool-{index % POOLS}-{index}-0"


def node_labels(index: int) -> dict[str, str]:
    """Labels of a node."""
    zone = ZONES[index % len(ZONES)]
    return {
        "kubernetes.io/hostname": node_name(index),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": TYPE,
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": "us-east-1",
        "karpenter.sh/nodepool": f"pool-{index % POOLS}",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "karpenter.k8s.aws/instance-family": "m5",
        "karpenter.k8s.aws/instance-category": "m",
        "karpenter.k8s.aws/instance-cpu": "16",
        "karpenter.k8s.aws/instance-memory": "65536",
    }
