"""A small simulated cluster and the objects to put into it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from core.api.objects import JsonObject
from core.manifests.wire import resources
from simulator.clock import VirtualClock
from simulator.cluster import Cluster
from simulator.record import Event, Recorder

ZONE = "topology.kubernetes.io/zone"


class World:
    """A cluster from seed 1 with its clock and its record."""

    def __init__(self) -> None:
        self.clock = VirtualClock(datetime(2026, 11, 20, tzinfo=UTC))
        recorder = Recorder(self.clock)
        self.record: list[Event] = []
        recorder.listen(self.record.append)
        self.cluster = Cluster(self.clock, recorder, Random(1))  # noqa: S311 - a seed, not a secret

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.run_until(self.clock.now() + timedelta(seconds=seconds))

    def events(self, name: str) -> list[dict[str, Any]]:
        """The fields of the events of that name."""
        return [event.fields for event in self.record if event.event == name]

    def join(self, *names: str, zone: str = "us-east-1a", cpu: str = "16", **spec: Any) -> None:
        """Let nodes join, without waiting until they are ready."""
        for name in names:
            self.cluster.join_node(a_node(name, zone=zone, cpu=cpu, **spec))

    def pods(self, prefix: str = "") -> list[JsonObject]:
        """The pods whose names begin so."""
        return [pod for pod in self.cluster.pods() if pod["metadata"]["name"].startswith(prefix)]

    def pod(self, name: str) -> JsonObject:
        """The pod of that name."""
        return next(pod for pod in self.cluster.pods() if pod["metadata"]["name"] == name)

    def where(self, prefix: str = "") -> dict[str, str]:
        """Pod name to node name; empty for pods that wait."""
        return {pod["metadata"]["name"]: pod["spec"].get("nodeName", "") for pod in self.pods(prefix)}

    def ready(self, prefix: str = "") -> list[str]:
        """The names of the ready pods."""
        return [pod["metadata"]["name"] for pod in self.pods(prefix) if has_condition(pod, "Ready")]

    def evict(self, name: str, namespace: str = "default") -> None:
        """Evict a pod as a function does."""
        self.cluster.api.evict(namespace, name, uid=self.pod(name)["metadata"]["uid"])

    def budget(self, name: str = "budget") -> JsonObject:
        """The status of a PodDisruptionBudget."""
        budgets = [b for b in self.cluster.objects("PodDisruptionBudget") if b["metadata"]["name"] == name]
        return budgets[0]["status"]

    def patch_node(self, name: str, spec: JsonObject) -> None:
        """Change a node's spec as a function does."""
        self.cluster.api.patch(resources.NODES, name, {"spec": spec})


def has_condition(obj: JsonObject, kind: str) -> bool:
    """Whether the condition is true."""
    return any(c["type"] == kind and c["status"] == "True" for c in obj["status"].get("conditions", ()))


def a_node(name: str, *, zone: str = "us-east-1a", cpu: str = "16", **spec: Any) -> JsonObject:
    """A Node as a kubelet would register it."""
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": {ZONE: zone}},
        "spec": {"providerID": f"aws:///{zone}/i-{name}", **spec},
        "status": {"capacity": {"cpu": cpu, "memory": "64Gi", "pods": "110"}},
    }


def a_pod(name: str, *, cpu: str = "1", labels: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A bare pod in the namespace default."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "labels": labels or {}}
    return {"kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def a_workload(
    kind: str, name: str = "web", *, cpu: str = "1", spec: JsonObject | None = None, **more: Any
) -> JsonObject:
    """A workload of pods labelled `app: NAME`; `spec` goes to the pods, the rest to the workload."""
    pod = a_pod("", cpu=cpu, **(spec or {}))["spec"]
    template = {"metadata": {"labels": {"app": name}}, "spec": pod}
    body = {"selector": {"matchLabels": {"app": name}}, "template": template, **more}
    return {"kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": body}


def a_budget(app: str = "web", name: str = "budget", **spec: Any) -> JsonObject:
    """A PodDisruptionBudget over `app: APP`."""
    body = {"selector": {"matchLabels": {"app": app}}, **spec}
    return {"kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"}, "spec": body}


_OF_CLASS = {
    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
    "requirements": [],
}


def a_node_claim(name: str, **metadata: Any) -> JsonObject:
    """A NodeClaim that its definition admits."""
    metadata = {"name": name, **metadata}
    return {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": {**_OF_CLASS}}


def a_node_pool(name: str, metadata: JsonObject | None = None, **spec: Any) -> JsonObject:
    """A NodePool that its definition admits."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"template": {"spec": {**_OF_CLASS}}, **spec},
    }


def a_node_class(name: str) -> JsonObject:
    """An EC2NodeClass that its definition admits."""
    spec = {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"id": "subnet-1"}],
        "securityGroupSelectorTerms": [{"id": "sg-1"}],
    }
    return {"apiVersion": "karpenter.k8s.aws/v1", "kind": "EC2NodeClass", "metadata": {"name": name}, "spec": spec}
