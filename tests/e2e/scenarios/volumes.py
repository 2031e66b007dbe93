"""Volumes that live in one zone: pods follow them, also after their nodes are gone."""

from __future__ import annotations

from typing import Any, Final

from tests.e2e.play import Play
from tests.e2e.scenarios.objects import node_class, on, own_pool
from tests.e2e.volumes import DRIVER, ZONE

POOL: Final = "volumes"
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")


def scene(playing: Play) -> None:
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
