"""The rules of binding agree, in random clusters, with the embedded scheduler, which is a separate implementation."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from core import labels
from core.api.objects import JsonObject
from core.lifecycle.binding.admission import objection
from core.lifecycle.binding.eligibility import is_left_to_scheduler
from core.lifecycle.binding.placed_pods import PlacedPods
from core.manifests import nodes
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import decoding as wire
from simulator.cluster.scheduling.scheduler import Scheduler
from simulator.cluster.store import Store
from simulator.cluster.volumes.binder import VolumeBinder
from tests.unit.simulator.cluster.world import World

HELD: Final = {"key": labels.UNREGISTERED_TAINT, "effect": "NoSchedule"}
KEYS: Final = (labels.ZONE, labels.HOSTNAME, "rack")
APPS: Final = ("a", "b", "c")


class RandomCluster:
    """Held nodes, pods on them that break rules, and pending pods."""

    def __init__(self, seed: int) -> None:
        self.draw = Random(seed)  # noqa: S311 - a seed, not a secret
        world = World()
        self.store = Store(world.clock, self.draw)
        self.scheduler = Scheduler(self.store, VolumeBinder(self.store))
        self.nodes = [self._node(f"n{number}") for number in range(self.draw.randint(2, 5))]
        self.pods = [self._pod(f"p{number}") for number in range(self.draw.randint(4, 14))]
        for node in self.nodes:
            self.store.create(kinds.NODES, node)
        for pod in self.pods:
            self.store.create(kinds.PODS, pod)

    def _node(self, name: str) -> JsonObject:
        own = {labels.ZONE: self.draw.choice("xyz"), labels.HOSTNAME: name}
        if self.draw.random() < 0.7:
            own["rack"] = self.draw.choice("12")
        taints = [HELD] if self.draw.random() < 0.8 else []
        if self.draw.random() < 0.3:
            taints.append({"key": "t", "effect": self.draw.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))})
        room = {"cpu": str(self.draw.choice((2, 4))), "memory": "8Gi", "pods": str(self.draw.choice((3, 10)))}
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
        return {"metadata": {"name": name, "labels": own}, "spec": {"taints": taints}, "status": status}

    def _pod(self, name: str) -> JsonObject:
        ports = [{"containerPort": 80, "hostPort": self.draw.choice((80, 81))}] if self.draw.random() < 0.2 else []
        requests = {"cpu": self.draw.choice(("100m", "1", "2")), "memory": "1Gi"}
        spec: JsonObject = {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": requests}, "ports": ports}],
            "schedulerName": "default-scheduler",
            "priority": 0,
        }
        if self.draw.random() < 0.3:
            spec["nodeSelector"] = {labels.ZONE: self.draw.choice("xyz")}
        if self.draw.random() < 0.3:
            spec["tolerations"] = [{"key": "t", "operator": "Exists"}]
        if self.draw.random() < 0.5:
            spec["topologySpreadConstraints"] = [self._spread() for _ in range(self.draw.randint(1, 2))]
        affinity = {
            kind: {
                "requiredDuringSchedulingIgnoredDuringExecution": [self._term() for _ in range(self.draw.randint(1, 2))]
            }
            for kind in ("podAffinity", "podAntiAffinity")
            if self.draw.random() < 0.3
        }
        if affinity:
            spec["affinity"] = affinity
        if self.draw.random() < 0.6:
            spec["nodeName"] = self.draw.choice(self.nodes)["metadata"]["name"]
        metadata: JsonObject = {
            "name": name,
            "namespace": self.draw.choice(("default", "other")),
            "labels": {"app": self.draw.choice(APPS), "v": self.draw.choice("12")},
        }
        if self.draw.random() < 0.1:
            metadata |= {"deletionTimestamp": "2026-11-20T00:00:00Z", "finalizers": ["f"]}
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    def _spread(self) -> JsonObject:
        rule: JsonObject = {
            "topologyKey": self.draw.choice(KEYS),
            "maxSkew": self.draw.randint(1, 2),
            "whenUnsatisfiable": self.draw.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            "labelSelector": self._selector(),
        }
        if self.draw.random() < 0.3:
            rule |= {"nodeTaintsPolicy": "Honor"}
        if self.draw.random() < 0.3:
            rule |= {"nodeAffinityPolicy": "Ignore"}
        if self.draw.random() < 0.3 and rule["whenUnsatisfiable"] == "DoNotSchedule":
            rule |= {"minDomains": self.draw.randint(1, 4)}
        if self.draw.random() < 0.3:
            rule |= {"matchLabelKeys": ["v"]}
        return rule

    def _term(self) -> JsonObject:
        term: JsonObject = {"topologyKey": self.draw.choice(KEYS), "labelSelector": self._selector()}
        if self.draw.random() < 0.3:
            term["namespaces"] = ["default", "other"]
        if self.draw.random() < 0.2:
            term["mismatchLabelKeys"] = ["v"]
        return term

    def _selector(self) -> JsonObject:
        if self.draw.random() < 0.2:
            values = self.draw.sample(APPS, 2)
            operator = self.draw.choice(("In", "NotIn"))
            return {"matchExpressions": [{"key": "app", "operator": operator, "values": values}]}
        return {"matchLabels": {"app": self.draw.choice(APPS)}}


@pytest.mark.parametrize("seed", range(60))
def test_binding_admits_exactly_what_the_scheduler_admits(seed: int) -> None:
    cluster, translator = RandomCluster(seed), PodTranslator()
    known = [nodes.node(wire.from_object(kinds.NODES, found)) for found in cluster.store.all(kinds.NODES)]
    written = cluster.store.all(kinds.PODS)
    pods = [translator.pod(wire.from_object(kinds.PODS, found)) for found in written]
    placed = PlacedPods(known, pods)
    answers = set()
    for manifest, pod in zip(written, pods, strict=True):
        if pod.node_name or not pod.is_active or is_left_to_scheduler(pod):
            continue
        for node in known:
            said = cluster.scheduler.objection(manifest, node.name, but_for=(HELD["key"], HELD["effect"]))
            answers.add(bool(said))
            assert (objection(pod, node, placed) is not None) == bool(said), (pod.key, node.name, said)
    assert answers or all(pod.node_name or not pod.is_active for pod in pods)
