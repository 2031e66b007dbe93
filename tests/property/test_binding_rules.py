"""The rules of binding agree, in random clusters, with the embedded scheduler, which is a separate implementation."""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from core import labels
from core.api.objects import JsonObject
from core.lifecycle.binding import PlacedPods, is_left_to_scheduler, objection
from core.manifests import assemble as nodes
from core.manifests.assemble import assemble
from core.manifests.pods import PodTranslator
from core.manifests.scheduler_config import default_spreads
from core.manifests.wire import decoding, resources
from core.model.catalogue import Catalogue
from core.model.snapshot import Options, Snapshot
from core.scheduling.pods import DefaultSpreads
from simulator.cluster.scheduler import Scheduler
from simulator.cluster.store import Store
from simulator.cluster.volumes import VolumeBinder
from tests.builders import NOW
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
            self.store.create(resources.NODES, node)
        for pod in self.pods:
            self.store.create(resources.PODS, pod)

    def judged(self, pod: JsonObject) -> JsonObject:
        """The pod as the scheduler reads it."""
        return pod

    def default_spreads(self) -> DefaultSpreads:
        return DefaultSpreads(Snapshot(now=NOW))

    def _node(self, name: str) -> JsonObject:
        node_labels = {labels.ZONE: self.draw.choice("xyz"), labels.HOSTNAME: name}
        if self.draw.random() < 0.7:
            node_labels["rack"] = self.draw.choice("12")
        taints = [HELD] if self.draw.random() < 0.8 else []
        if self.draw.random() < 0.3:
            taints.append({"key": "t", "effect": self.draw.choice(("NoSchedule", "PreferNoSchedule", "NoExecute"))})
        room = {"cpu": str(self.draw.choice((2, 4))), "memory": "8Gi", "pods": str(self.draw.choice((3, 10)))}
        status = {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]}
        return {"metadata": {"name": name, "labels": node_labels}, "spec": {"taints": taints}, "status": status}

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


class ClusterWithDefaults(RandomCluster):
    """A random cluster with default spreads, Services and ReplicaSets; the scheduler reads the defaults in the pods."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.defaults = [self._default(key) for key in self.draw.sample(KEYS, self.draw.randint(1, 2))]
        self.services = [self._service(f"s{number}") for number in range(self.draw.randint(0, 6))]
        self.replica_sets = [self._replica_set(f"r{number}") for number in range(self.draw.randint(0, 3))]

    def judged(self, pod: JsonObject) -> JsonObject:
        """The pod with the constraints that its Services and its controller give it."""
        requirements = self._requirements(pod)
        if pod["spec"].get("topologySpreadConstraints") or not requirements:
            return pod
        spreads = [{**default, "labelSelector": {"matchExpressions": requirements}} for default in self.defaults]
        return {**pod, "spec": {**pod["spec"], "topologySpreadConstraints": spreads}}

    def default_spreads(self) -> DefaultSpreads:
        config = {"podTopologySpread": {"defaultConstraints": self.defaults}}
        objects = {
            kind: [decoding.from_object(kind, obj) for obj in written]
            for kind, written in ((resources.SERVICES, self.services), (resources.REPLICA_SETS, self.replica_sets))
        }
        options = Options(default_spreads=default_spreads(config))
        snapshot, problems = assemble(objects, now=NOW, catalogue=Catalogue(), options=options)
        assert problems == ()
        return DefaultSpreads(snapshot)

    def _requirements(self, pod: JsonObject) -> list[JsonObject]:
        metadata = pod["metadata"]
        pairs = [
            pair
            for service in self.services
            if service["metadata"]["namespace"] == metadata["namespace"]
            and all(metadata["labels"].get(key) == value for key, value in service["spec"]["selector"].items())
            for pair in service["spec"]["selector"].items()
        ]
        for reference in metadata.get("ownerReferences", ()):
            for owner in self.replica_sets if reference["controller"] else ():
                there = (owner["metadata"]["namespace"], owner["metadata"]["name"])
                if there == (metadata["namespace"], reference["name"]):
                    pairs += owner["spec"]["selector"]["matchLabels"].items()
        return [{"key": key, "operator": "In", "values": [value]} for key, value in pairs]

    def _pod(self, name: str) -> JsonObject:
        pod = super()._pod(name)
        for rule in ("topologySpreadConstraints", "affinity", "nodeSelector"):
            if self.draw.random() < 0.8:  # otherwise, few pods have a default, and fewer depend on it alone
                pod["spec"].pop(rule, None)
        if self.draw.random() < 0.5:
            owner: JsonObject = {
                "kind": "ReplicaSet",
                "apiVersion": "apps/v1",
                "name": self.draw.choice(("r0", "r1", "r2")),
            }
            owner |= {"uid": owner["name"], "controller": self.draw.random() < 0.8}
            pod["metadata"]["ownerReferences"] = [owner]
        return pod

    def _default(self, key: str) -> JsonObject:
        deduced = ("labelSelector", "matchLabelKeys")
        return {k: value for k, value in self._spread().items() if k not in deduced} | {"topologyKey": key}

    def _service(self, name: str) -> JsonObject:
        return {"metadata": self._named(name), "spec": {"selector": self._labels()}}

    def _replica_set(self, name: str) -> JsonObject:
        return {"metadata": self._named(name), "spec": {"selector": {"matchLabels": self._labels()}}}

    def _named(self, name: str) -> JsonObject:
        return {"name": name, "namespace": self.draw.choice(("default", "default", "other"))}

    def _labels(self) -> JsonObject:
        drawn = {"v": self.draw.choice("12"), "app": self.draw.choice(APPS)}
        keys = self.draw.choice((["app"], ["v"], ["v", "app"], ["app", "v"]))
        return {key: drawn[key] for key in keys}


def assert_agrees(cluster: RandomCluster) -> None:
    translator = PodTranslator()
    known_nodes = [nodes.node(decoding.from_object(resources.NODES, obj)) for obj in cluster.store.all(resources.NODES)]
    written = cluster.store.all(resources.PODS)
    pods = cluster.default_spreads().as_own(
        translator.pod(decoding.from_object(resources.PODS, obj)) for obj in written
    )
    placed = PlacedPods(known_nodes, pods)
    answers = set()
    for manifest, pod in zip(written, pods, strict=True):
        if pod.node_name or not pod.is_active or is_left_to_scheduler(pod):
            continue
        for node in known_nodes:
            verdict = cluster.scheduler.objection(
                cluster.judged(manifest), node.name, but_for=(HELD["key"], HELD["effect"])
            )
            answers.add(bool(verdict))
            assert (objection(pod, node, placed) is not None) == bool(verdict), (pod.key, node.name, verdict)
    assert answers or all(pod.node_name or not pod.is_active for pod in pods)


@pytest.mark.parametrize("seed", range(25))
def test_binding_admits_exactly_what_the_scheduler_admits(seed: int) -> None:
    assert_agrees(RandomCluster(seed))


@pytest.mark.parametrize("seed", range(25))
def test_it_does_so_in_clusters_with_default_spreads(seed: int) -> None:
    assert_agrees(ClusterWithDefaults(seed))
