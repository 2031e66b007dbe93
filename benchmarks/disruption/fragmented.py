"""A fragmented cluster: nodes a third to four fifths full, some rules, PodDisruptionBudgets and protected pods."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Final

from benchmarks.disruption.fragmented_objects import AGENT, agents, allocatable, node_and_claim, node_pool, pod
from benchmarks.workloads.manifests import HOSTNAME, ZONE, Workload, required_terms, spread
from core.api.objects import JsonObject

_ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
_FAMILIES: Final = ("c5a", "c6i", "c7a", "m5", "m6a", "m7i", "r5a", "r6i")
_SIZES: Final = ("large", "xlarge", "2xlarge")
_CPUS: Final = (50, 100, 150, 200, 250, 400, 500, 1000)
_MEBIBYTES: Final = (128, 256, 384, 512, 768, 1024, 2048, 4096)
_RULES: Final = {"": 78, "zone-spread": 8, "host-spread": 6, "apart": 8}
"""Rule of a service → the percentage of services that have it."""

_HOSTNAME_MAX: Final = {"apart": 1, "host-spread": 3}
_PODS_PER_NODE: Final = 11
_TRIES_PER_POD: Final = 8
FEW_PROTECTED: Final = 0.004
MANY_PROTECTED: Final = 0.02
"""Shares of pods with do-not-disrupt, which protect one node in 25 or one in five."""


@dataclass(slots=True)
class _Service:
    """A workload whose pods are alike."""

    name: str
    cpu: int
    memory: int
    rule: str
    weight: float
    pods: int = 0
    zones: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_ZONES, 0))
    hosts: dict[str, int] = field(default_factory=dict)

    def may_join(self, place: _Place) -> bool:
        """Whether one more pod respects the service's rule and the node's target."""
        if self.cpu > place.cpu or self.memory > place.memory or place.slots < 1:
            return False
        if self.rule == "zone-spread" and self.zones[place.zone] > min(self.zones.values()):
            return False
        return self.hosts.get(place.name, 0) < _HOSTNAME_MAX.get(self.rule, 10**6)

    def join(self, place: _Place, *, is_protected: bool) -> JsonObject:
        """Add one more pod to the node."""
        place.cpu -= self.cpu
        place.memory -= self.memory
        place.slots -= 1
        self.zones[place.zone] += 1
        self.hosts[place.name] = self.hosts.get(place.name, 0) + 1
        self.pods += 1
        spec = {**self._rules(), "nodeName": place.name}
        return pod(
            f"{self.name}-{self.pods - 1}",
            "shop",
            ("ReplicaSet", self.name),
            self.cpu,
            self.memory,
            spec,
            is_protected=is_protected,
        )

    def budget(self, draw: random.Random) -> JsonObject:
        """Return the service's PodDisruptionBudget; for a small service, it sometimes allows no disruption."""
        most = 0 if self.pods < 9 and draw.random() < 0.3 else max(1, self.pods // 5)
        status = {
            "disruptionsAllowed": most,
            "expectedPods": self.pods,
            "currentHealthy": self.pods,
            "desiredHealthy": self.pods - most,
        }
        return {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": self.name, "namespace": "shop"},
            "spec": {"maxUnavailable": most, "selector": {"matchLabels": {"app": self.name}}},
            "status": status,
        }

    def _rules(self) -> JsonObject:
        selected = {"app": self.name}
        match self.rule:
            case "zone-spread":
                return {"topologySpreadConstraints": [spread(ZONE, selected)]}
            case "host-spread":
                return {
                    "topologySpreadConstraints": [spread(HOSTNAME, selected, max_skew=_HOSTNAME_MAX["host-spread"])]
                }
            case "apart":
                return {"affinity": {"podAntiAffinity": required_terms(HOSTNAME, selected)}}
        return {}


@dataclass(slots=True)
class _Place:
    """The free room of a node: thousandths of a core, MiB, pods."""

    name: str
    zone: str
    cpu: float
    memory: float
    slots: int


def fragmented(nodes: int, seed: int, catalogue: JsonObject, *, protected: float = FEW_PROTECTED) -> Workload:
    """Return a cluster with about eleven pods per node, and two fifths of the nodes on spot.

    Args:
        nodes: The number of nodes.
        seed: The seed of all random choices.
        catalogue: The types; those of the families c, m and r without accelerators are used.
        protected: The share of pods with do-not-disrupt.
    """
    draw = random.Random(f"fragmented-{seed}")  # noqa: S311 - a benchmark, not secrets
    plain_catalogue = _plain(catalogue)
    shapes = [kind for kind in plain_catalogue["instanceTypes"] if _is_small(kind["name"])]
    services = [_service(draw, number) for number in range(max(25, nodes * 2 // 5))]
    cluster: list[JsonObject] = [node_pool(), agents()]
    pods: list[JsonObject] = []
    places: list[_Place] = []
    for number in range(nodes):
        kind, zone, name = draw.choice(shapes), draw.choice(_ZONES), f"node-{number:04d}"
        cluster += node_and_claim(name, kind, zone, draw.choices(("on-demand", "spot"), (3, 2))[0])
        pods.append(
            pod(
                f"agent-{number:04d}",
                "kube-system",
                ("DaemonSet", "agent"),
                AGENT["cpu"],
                AGENT["memory"],
                {"nodeName": name},
            )
        )
        places.append(_place(name, kind, zone, draw.uniform(0.35, 0.8)))
    weights = [service.weight for service in services]
    placed = 0
    for _ in range(nodes * _PODS_PER_NODE * _TRIES_PER_POD):
        if placed == nodes * _PODS_PER_NODE:
            break
        place, service = draw.choice(places), draw.choices(services, weights)[0]
        if service.may_join(place):
            pods.append(service.join(place, is_protected=draw.random() < protected))
            placed += 1
    cluster += [service.budget(draw) for service in services if service.pods and draw.random() < 0.12]
    return Workload(pods, cluster, plain_catalogue)


def _service(draw: random.Random, number: int) -> _Service:
    cpu, memory = draw.choice(_CPUS), draw.choice(_MEBIBYTES)
    rule = draw.choices(tuple(_RULES), tuple(_RULES.values()))[0]
    return _Service(f"app-{number:03d}", cpu, memory, rule, draw.paretovariate(1.8))


def _place(name: str, kind: JsonObject, zone: str, goal: float) -> _Place:
    free = allocatable(kind)
    cpu, memory = float(free["cpu"]) * 1000 - AGENT["cpu"], float(free["memory"]) / 2**20 - AGENT["memory"]
    return _Place(name, zone, cpu * goal, memory * goal, int(kind["capacity"]["pods"]) - 1)


def _plain(catalogue: JsonObject) -> JsonObject:
    """The C, M and R types without accelerators."""
    category = "karpenter.k8s.aws/instance-category"
    return {
        "instanceTypes": [
            kind
            for kind in catalogue["instanceTypes"]
            if "nvidia.com/gpu" not in kind["capacity"] and (kind["requirements"].get(category) or [""])[0] in "cmr"
        ]
    }


def _is_small(name: str) -> bool:
    family, size = name.split(".")
    return family in _FAMILIES and size in _SIZES
