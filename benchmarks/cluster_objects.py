"""Objects of simulated clusters that several benchmarks play: a workload, and the EC2NodeClass of their nodes."""

from __future__ import annotations

from typing import Final

from core.api.objects import JsonObject


def deployment(name: str, replicas: int, *, cpu: str, memory: str) -> JsonObject:
    """Return a Deployment whose pods have one container with these requests."""
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


NODE_CLASS: Final[JsonObject] = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "FleetwrightNodeRole",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "fleetwright"}}],
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "fleetwright"}}],
    },
}
