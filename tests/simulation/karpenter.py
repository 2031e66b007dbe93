"""Another provisioner in the embedded cluster: NodeClaims and Nodes come and go by its own rules, and none is ours."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

from core import labels
from core.manifests.wire import resources as kinds
from simulator.world import World
from tests.builders import a_class_manifest
from tests.simulation.worlds import ZONES, deployment, node_pool, write

EVERY = timedelta(seconds=20)
BOOT = timedelta(seconds=50)
EMPTY_FOR = timedelta(minutes=5)
TYPE, CPUS = "test.medium", 4
READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Ready",
    "message": "",
    "lastTransitionTime": "2026-11-19T00:00:00Z",
}
DISRUPTING = {"type": "DisruptionReason", "status": "True", "reason": "Empty"}


def resolved_class() -> dict[str, Any]:
    """The EC2NodeClass with the status that Karpenter writes."""
    subnets = [{"id": f"subnet-{number}", "zone": zone} for number, zone in enumerate(ZONES)]
    amis = [{"id": "ami-1", "requirements": []}]
    return a_class_manifest(
        status={"amis": amis, "subnets": subnets, "securityGroups": [{"id": "sg-1"}], "conditions": [READY]}
    )


def beside_karpenter(folder: Path) -> Path:
    """An hour with `mode: shadow`: twelve pods, of which most leave after a third of it, and some come again."""
    pool = {**node_pool(), "status": {"conditions": [READY]}}
    steps = [
        {"at": "20m", "scale": {"kind": "Deployment", "name": "web", "replicas": 4}},
        {"at": "40m", "scale": {"kind": "Deployment", "name": "web", "replicas": 18}},
    ]
    spec = {"duration": "60m", "settings": {"mode": "shadow"}}
    return write(folder, resolved_class(), pool, deployment(12), steps=steps, **spec)


class Karpenter:
    """One on-demand node of one size for each pod that waits; a node goes when it has been empty for five minutes.

    Attributes:
        launched: The names of its nodes, also of those that are gone.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._store: Any = world.cluster._store
        self._empty_since: dict[str, Any] = {}
        self._for: dict[str, str] = {}
        self.launched: list[str] = []

    def start(self) -> None:
        self._world.clock.after(EVERY, self._tick)

    def _tick(self) -> None:
        self._world.clock.after(EVERY, self._tick)
        self._launch()
        self._remove_empty()

    def _launch(self) -> None:
        for pod in self._world.cluster.pods():
            key = pod["metadata"]["uid"]
            if pod["spec"].get("nodeName") or key in self._for or not _is_unschedulable(pod):
                continue
            name = f"karpenter-{len(self.launched)}"
            self.launched.append(name)
            self._for[key] = name
            self._store.create(kinds.NODE_CLAIMS, self._claim(name, {}))
            self._world.clock.after(BOOT, lambda name=name: self._join(name))

    def _join(self, name: str) -> None:
        resources = {"cpu": str(CPUS), "memory": f"{4 * CPUS}Gi", "pods": "110"}
        allocatable = {**resources, "cpu": f"{CPUS * 1000 - 100}m", "memory": f"{4 * CPUS * 1024 - 200}Mi"}
        node = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": self._labels(name)},
            "spec": {"providerID": f"aws:///{ZONES[0]}/i-{name}"},
            "status": {"capacity": resources, "allocatable": allocatable, "conditions": [READY]},
        }
        self._world.cluster.apply([node])
        conditions = [
            self._condition(condition_type) for condition_type in ("Launched", "Registered", "Initialized", "Ready")
        ]
        status = {
            "nodeName": name,
            "providerID": node["spec"]["providerID"],
            "capacity": resources,
            "allocatable": allocatable,
            "conditions": conditions,
        }
        self._store.patch(kinds.NODE_CLAIMS, name, {"metadata": {"labels": self._labels(name)}, "status": status})

    def _remove_empty(self) -> None:
        now = self._world.clock.now()
        used = {pod["spec"].get("nodeName") for pod in self._world.cluster.pods()}
        for node in self._world.cluster.nodes():
            name = node["metadata"]["name"]
            if name in used:
                self._empty_since.pop(name, None)
            elif now - self._empty_since.setdefault(name, now) >= EMPTY_FOR:
                self._store.delete(kinds.NODE_CLAIMS, name)
                self._world.cluster.lose_instance(node["spec"]["providerID"])
                self._store.delete(kinds.NODES, name)

    def _claim(self, name: str, status: dict[str, Any]) -> dict[str, Any]:
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        requirement = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": [TYPE]}
        return {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": name, "labels": {labels.NODEPOOL: "default"}},
            "spec": {"nodeClassRef": reference, "requirements": [requirement]},
            "status": status,
        }

    def _condition(self, name: str) -> dict[str, Any]:
        return {**READY, "type": name, "lastTransitionTime": f"{self._world.clock.now():%Y-%m-%dT%H:%M:%SZ}"}

    def _labels(self, name: str) -> dict[str, str]:
        return {
            labels.NODEPOOL: "default",
            labels.INSTANCE_TYPE: TYPE,
            labels.ZONE: ZONES[0],
            labels.CAPACITY_TYPE: labels.ON_DEMAND,
            labels.ARCH: "amd64",
            labels.OS: "linux",
            labels.HOSTNAME: name,
            labels.REGISTERED: "true",
            labels.INITIALIZED: "true",
        }


def _is_unschedulable(pod: dict[str, Any]) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any((c["type"], c["status"]) == ("PodScheduled", "False") for c in conditions)
