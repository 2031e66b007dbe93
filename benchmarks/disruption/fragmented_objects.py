"""The objects of a fragmented cluster: nodes with their claims, pods, the NodePool and the agents' DaemonSet."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from benchmarks.workloads.manifests import CAPACITY_TYPE, HOSTNAME, INSTANCE_TYPE, ZONE, requirement
from core.api.objects import JsonObject

AGENT: Final = {"cpu": 120, "memory": 96}
"""Requests of the DaemonSet's pods: millicores and MiB."""

_SUFFIXES: Final[dict[str, int | Fraction]] = {
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
    "m": Fraction(1, 1000),
    "k": 10**3,
    "M": 10**6,
    "G": 10**9,
}
_NODES_SINCE: Final = "2026-11-18T00:00:00Z"
_PODS_SINCE: Final = "2026-11-19T00:00:00Z"
_CLASS_REF: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


def _amount(text: str) -> Fraction:
    """A quantity in base units."""
    for suffix, factor in _SUFFIXES.items():
        if text.endswith(suffix):
            return Fraction(text[: -len(suffix)]) * factor
    return Fraction(text)


def allocatable(kind: JsonObject) -> dict[str, Fraction]:
    """Return the amounts of a type that pods may use."""
    overhead = kind.get("overhead", {})
    return {name: _amount(str(text)) - _amount(str(overhead.get(name, "0"))) for name, text in kind["capacity"].items()}


def pod(
    name: str,
    namespace: str,
    owner: tuple[str, str],
    cpu: int,
    memory: int,
    spec: JsonObject,
    *,
    is_protected: bool = False,
) -> JsonObject:
    """Return a running pod. `owner`: kind and name; `cpu` in millicores, `memory` in MiB; `spec` is added to its own."""
    kind, owned_by = owner
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    reference = {"apiVersion": "apps/v1", "kind": kind, "name": owned_by, "uid": f"uid-{owned_by}", "controller": True}
    metadata = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": _PODS_SINCE,
        "labels": {"app": owned_by},
        "annotations": {"karpenter.sh/do-not-disrupt": "true"} if is_protected else {},
        "ownerReferences": [reference],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": "main", "resources": {"requests": requests}}], **spec},
        "status": {"phase": "Running", "startTime": _PODS_SINCE, "conditions": [_condition("Ready")]},
    }


def node_and_claim(name: str, kind: JsonObject, zone: str, capacity_type: str) -> list[JsonObject]:
    """Return an initialized node of an instance type, and its NodeClaim."""
    free = {
        resource: f"{int(amount * 1000)}m" if resource == "cpu" else str(int(amount))
        for resource, amount in allocatable(kind).items()
    }
    labels = {key: values[0] for key, values in kind["requirements"].items() if values}
    labels |= {
        INSTANCE_TYPE: kind["name"],
        ZONE: zone,
        CAPACITY_TYPE: capacity_type,
        "karpenter.sh/nodepool": "default",
    }
    labels |= {
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "karpenter.k8s.aws/ec2nodeclass": "default",
    }
    shape, provider = {"capacity": kind["capacity"], "allocatable": free}, f"aws:///{zone}/i-{name}"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | {HOSTNAME: name}, "creationTimestamp": _NODES_SINCE},
        "spec": {"providerID": provider},
        "status": {**shape, "conditions": [_condition("Ready")]},
    }
    conditions = [
        _condition(condition_type)
        for condition_type in ("Launched", "Registered", "Initialized", "Ready", "Consolidatable")
    ]
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": f"default-{name}", "labels": labels, "creationTimestamp": _NODES_SINCE},
        "spec": {"requirements": [], "nodeClassRef": _CLASS_REF, "expireAfter": "720h"},
        "status": {**shape, "nodeName": name, "providerID": provider, "conditions": conditions},
    }
    return [node, claim]


def _condition(kind: str) -> JsonObject:
    return {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": _NODES_SINCE}


def node_pool() -> JsonObject:
    """Return the cluster's only NodePool."""
    requirements = [
        requirement("kubernetes.io/arch", "In", "amd64"),
        requirement("karpenter.k8s.aws/instance-cpu", "Lt", "65"),
    ]
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "10%"}],
    }
    template = {"spec": {"nodeClassRef": _CLASS_REF, "requirements": requirements}}
    spec = {"template": template, "disruption": disruption}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": spec}


def agents() -> JsonObject:
    """Return the DaemonSet with a pod on every node."""
    requests = {"cpu": f"{AGENT['cpu']}m", "memory": f"{AGENT['memory']}Mi"}
    containers = [{"name": "main", "image": "main", "resources": {"requests": requests}}]
    labels = {"app": "agent"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": containers, "tolerations": [{"operator": "Exists"}]},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
