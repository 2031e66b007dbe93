"""Everything in `examples/`, applied bit by bit as users would."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import yaml

from core.api.objects import JsonObject
from tests.e2e.play import Play
from tests.e2e.scenarios.objects import (
    AMD64,
    deployment,
    near,
    node_class,
    node_pool,
    node_terms,
    on,
    own_pool,
    prefers,
    requirement,
    spread,
)
from tests.e2e.volumes import DRIVER, ZONE

FOLDER: Final = Path(__file__).parents[3] / "examples"
PODS: Final = {"zonal-affinity": 8, "zonal-anti-affinity": 3, "stateful": 20, "gpu": 2, "shop": 31}
"""What runs of each file; `daemons` is on every node and `notebook` is not meant to run."""

NOTEBOOK: Final = "research/forgot-the-toleration"


def all_examples(playing: Play, *, apart: float = 0.0) -> None:
    """Apply each file some seconds after the one before; all but the notebook must run, and an Event says why it waits."""
    for path in sorted((FOLDER / "pools").glob("*.yaml")):
        playing.apply(*map(_hurried, yaml.safe_load_all(path.read_text())))
    playing.apply_file(FOLDER / "workloads" / "daemons.yaml")
    playing.ready()
    playing.ignore(NOTEBOOK)
    for name in (*PODS, "notebook"):
        playing.apply_file(FOLDER / "workloads" / f"{name}.yaml")
        time.sleep(apart)
    playing.wait_until_running(sum(PODS.values()))
    playing.wait_until_none_is_empty()
    playing.wait(lambda: _told(playing), "the notebook is told why it waits")


def _hurried(manifest: JsonObject) -> JsonObject:
    """Pools that only let empty nodes go do so soon, and all at once.

    kube-scheduler may leave some empty where pods merely prefer to spread.
    """
    disruption = manifest["spec"].get("disruption") or {}
    if disruption.get("consolidationPolicy") == "WhenEmpty":
        disruption |= {"consolidateAfter": "5s", "budgets": [{"nodes": "100%"}]}
    return manifest


def _told(playing: Play) -> list[JsonObject]:
    """Events about the notebook by our functions."""
    namespace, _, name = NOTEBOOK.partition("/")
    return [
        event
        for event in playing.world.admin.list("events", namespace)
        if event["involvedObject"]["name"] == name and "scheduler" not in str(event.get("source"))
    ]


# Volumes that live in one zone: pods follow them, also after their nodes are gone.


POOL: Final = "volumes"
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")


def volumes_in_zones(playing: Play) -> None:
    """One bound volume in each zone, three pods that each must go to theirs."""
    storage = [found for zone in ZONES for found in _storage(zone)]
    playing.apply(node_class(), own_pool(POOL), *storage)
    playing.ready()
    playing.apply(*[_pod(zone) for zone in ZONES])
    playing.wait_until_running(len(ZONES))
    zones = {node["metadata"]["name"]: node["metadata"]["labels"][ZONE] for node in playing.nodes()}
    for pod in playing.pods():
        if zones[pod["spec"]["nodeName"]] != pod["metadata"]["labels"]["zone"]:
            playing.violations.append(f"{pod['metadata']['name']} runs in another zone than its volume")


def _storage(zone: str) -> list[dict[str, Any]]:
    """A volume in the zone, and the claim that it is bound to."""
    name = f"data-{zone}"
    terms = [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}]
    common = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            **common,
            "capacity": {"storage": "10Gi"},
            "claimRef": {"namespace": POOL, "name": name},
            "csi": {"driver": DRIVER, "volumeHandle": f"vol-{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        },
    }
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": POOL},
        "spec": {**common, "volumeName": name, "resources": {"requests": {"storage": "10Gi"}}},
    }
    return [volume, claim]


def _pod(zone: str) -> dict[str, Any]:
    container = {
        "name": "store",
        "image": "registry.example.com/store:1",
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-{zone}"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"store-{zone}", "namespace": POOL, "labels": {"zone": zone}},
        "spec": {"containers": [container], "volumes": [volume], **on(POOL)},
    }


# A thousand pods of forty Deployments at once, with every kind of constraint.


DEPLOYMENTS: Final = 40
REPLICAS: Final = 25
HOST: Final = "kubernetes.io/hostname"
CAPACITY: Final = "karpenter.sh/capacity-type"
SIZES: Final = (("250m", "256Mi"), ("500m", "1Gi"), ("1", "1Gi"), ("750m", "3Gi"))
DEDICATED: Final = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}

Kind = Callable[[str], JsonObject]

KINDS: Final[tuple[Kind, ...]] = (
    lambda _: {},
    lambda _: {"nodeSelector": {ZONE: "us-east-1b"}},
    lambda _: node_terms(requirement(CAPACITY, "on-demand")),
    lambda app: spread(app, ZONE),
    lambda app: spread(app, HOST, skew=4),
    lambda app: near(app, ZONE),
    lambda app: near(app, HOST, apart=True),
    lambda _: {"nodeSelector": {"pool": "dedicated"}, "tolerations": [{"key": "dedicated", "operator": "Exists"}]},
    lambda app: prefers(requirement(ZONE, "us-east-1a")) | spread(app, ZONE, must=False),
    lambda _: node_terms(requirement(ZONE, "us-east-1c", operator="NotIn"), requirement(CAPACITY, operator="Exists")),
)
"""One kind of constraint each; a Deployment takes its kind by its number."""


def pools() -> list[JsonObject]:
    """A pool for everyone, and a tainted one; where kube-scheduler leaves a node empty it goes."""
    both = requirement(CAPACITY, "spot", "on-demand")
    empty_go: JsonObject = {"policy": "WhenEmpty", "consolidate_after": "5s"}
    tainted: JsonObject = {"labels": {"pool": "dedicated"}, "template": {"taints": [DEDICATED]}, "weight": 10}
    return [node_pool("burst", AMD64, both, **empty_go), node_pool("dedicated", AMD64, both, **empty_go, **tainted)]


def workload(namespace: str, replicas: int = REPLICAS, deployments: int = DEPLOYMENTS) -> list[JsonObject]:
    """The Deployments."""
    found = []
    for number in range(deployments):
        app = f"app-{number:02d}"
        cpu, memory = SIZES[number // len(KINDS) % len(SIZES)]
        ports = (8000 + number,) if number == 10 else ()
        found.append(
            deployment(namespace, app, replicas, cpu=cpu, memory=memory, ports=ports, **KINDS[number % len(KINDS)](app))
        )
    return found
