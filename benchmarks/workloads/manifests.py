"""Kubernetes manifests with the few fields that the workloads vary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from core.api.objects import JsonObject

NOW: Final = "2026-11-20T12:00:00Z"
_BEFORE: Final = "2026-11-20T11:00:00Z"
ZONE: Final = "topology.kubernetes.io/zone"
HOSTNAME: Final = "kubernetes.io/hostname"
CAPACITY_TYPE: Final = "karpenter.sh/capacity-type"
INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
GPU: Final = "nvidia.com/gpu"
_CLASS_REF: Final = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


@dataclass(frozen=True, slots=True)
class Workload:
    """One problem to plan for.

    Attributes:
        pods: Pending and running pods.
        cluster: NodePools, nodes, NodeClaims, DaemonSets.
        catalogue: The document of the command line's `--catalog`.
    """

    pods: Sequence[JsonObject]
    cluster: Sequence[JsonObject]
    catalogue: JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class PodShape:
    """The common properties of a service's pods.

    Attributes:
        cpu: Thousandths of a core.
        memory: MiB.
        spec: Further fields of the pod's spec.
    """

    cpu: int
    memory: int
    gpus: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    spec: Mapping[str, Any] = field(default_factory=dict)

    def manifest(self, name: str, *, node: str = "") -> JsonObject:
        """One pod of the service; pending if no node is named."""
        requests = {"cpu": f"{self.cpu}m", "memory": f"{self.memory}Mi"}
        resources: JsonObject = {"requests": requests}
        if self.gpus:
            resources = {"requests": {**requests, GPU: str(self.gpus)}, "limits": {GPU: str(self.gpus)}}
        metadata = {
            "name": name,
            "namespace": "default",
            "uid": name,
            "creationTimestamp": _BEFORE,
            "labels": dict(self.labels),
        }
        spec: JsonObject = {"containers": [{"name": "main", "image": "main", "resources": resources}], **self.spec}
        if node:
            spec["nodeName"] = node
        status = {"phase": "Running" if node else "Pending"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def numbered(shapes: Iterator[PodShape]) -> list[JsonObject]:
    """Pending pods, numbered in order, so that their order by name equals their order by age."""
    return [shape.manifest(f"pod-{number:06d}") for number, shape in enumerate(shapes)]


def spread(key: str, selected: Mapping[str, str], *, max_skew: int = 1) -> JsonObject:
    """A hard topology spread constraint over pods with these labels."""
    return {
        "maxSkew": max_skew,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": dict(selected)},
    }


def required_terms(key: str, selected: Mapping[str, str]) -> JsonObject:
    """The body of a required pod affinity or anti-affinity."""
    term = {"topologyKey": key, "labelSelector": {"matchLabels": dict(selected)}}
    return {"requiredDuringSchedulingIgnoredDuringExecution": [term]}


def node_pool(*requirements: JsonObject) -> JsonObject:
    """A NodePool without limits."""
    template = {"spec": {"nodeClassRef": _CLASS_REF, "requirements": list(requirements)}}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {"template": template},
    }


def requirement(key: str, operator: str, *values: str) -> JsonObject:
    """One node selector requirement."""
    return {"key": key, "operator": operator, "values": list(values)}


def daemon_set(name: str, *, cpu: int, memory: int) -> JsonObject:
    """A DaemonSet that runs everywhere. `cpu` in thousandths of a core, `memory` in MiB."""
    requests = {"cpu": f"{cpu}m", "memory": f"{memory}Mi"}
    containers = [{"name": "main", "image": "main", "resources": {"requests": requests}}]
    labels = {"daemon": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "kube-system", "uid": name},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": containers, "tolerations": [{"operator": "Exists"}]},
            },
        },
    }


def node_and_claim(name: str, instance_type: JsonObject, zone: str) -> list[JsonObject]:
    """A running on-demand node of ours, and the NodeClaim that it came from."""
    labels = {key: values[0] for key, values in instance_type["requirements"].items()}
    labels |= {INSTANCE_TYPE: instance_type["name"], ZONE: zone, CAPACITY_TYPE: "on-demand"}
    labels |= {"karpenter.sh/nodepool": "default"}
    shape = {"capacity": instance_type["capacity"], "allocatable": allocatable(instance_type)}
    provider_id = f"aws:///{zone}/i-{name}"
    conditions = [_condition(kind) for kind in ("Launched", "Registered", "Initialized")]
    claim = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": f"claim-{name}", "uid": f"claim-{name}", "creationTimestamp": _BEFORE, "labels": labels},
        "spec": {"nodeClassRef": _CLASS_REF, "requirements": []},
        "status": {"providerID": provider_id, "nodeName": name, "conditions": conditions, **shape},
    }
    own_labels = {HOSTNAME: name, "karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": name, "creationTimestamp": _BEFORE, "labels": {**labels, **own_labels}},
        "spec": {"providerID": provider_id},
        "status": {"conditions": [_condition("Ready")], **shape},
    }
    return [claim, node]


def allocatable(instance_type: JsonObject) -> dict[str, str]:
    """Return a type's allocatable resources: CPU in thousandths, memory in MiB, others unchanged."""
    capacity, overhead = instance_type["capacity"], instance_type["overhead"]
    amounts = dict(capacity)
    amounts["cpu"] = f"{1000 * int(capacity['cpu']) - int(overhead['cpu'].removesuffix('m'))}m"
    amounts["memory"] = f"{mebibytes(capacity['memory']) - mebibytes(overhead['memory'])}Mi"
    return amounts


def mebibytes(text: str) -> int:
    """MiB of a quantity in Mi or Gi."""
    amount = int(text[:-2])
    return amount * 1024 if text.endswith("Gi") else amount


def _condition(kind: str) -> JsonObject:
    return {"type": kind, "status": "True", "reason": kind, "lastTransitionTime": _BEFORE}
