"""The parts of a Node by writer: first the kubelet, then the cloud controller and the EBS driver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from adapters.ports import JsonObject
from core import labels
from simulator.cluster.kubelet import EBS_DRIVER, EBS_VOLUMES_MAX

FAKE: Final = {"kwok.x-k8s.io/node": "fake"}
"""kwok plays the kubelet of Nodes with this annotation."""

UNINITIALIZED: Final = {
    "key": "node.cloudprovider.kubernetes.io/uninitialized",
    "value": "true",
    "effect": "NoSchedule",
}
"""What a kubelet with `--cloud-provider=external` registers with, until the cloud controller has seen the node."""

_CLOUD_LABELS: Final = (
    labels.INSTANCE_TYPE,
    labels.REGION,
    labels.ZONE,
    labels.ZONE_ID,
    labels.EBS_ZONE,
)
_AMOUNTS: Final = ("capacity", "allocatable")
_OLD_NAMES: Final = {
    labels.INSTANCE_TYPE: "beta.kubernetes.io/instance-type",
    labels.REGION: "failure-domain.beta.kubernetes.io/region",
    labels.ZONE: "failure-domain.beta.kubernetes.io/zone",
}


def by_kubelet(node: JsonObject, annotations: Mapping[str, str] = FAKE) -> JsonObject:
    """Return the Node as the kubelet creates it, without location labels and devices. With `FAKE` kwok plays the kubelet."""
    metadata, status = node["metadata"], node["status"]
    own = {key: value for key, value in metadata["labels"].items() if key not in _CLOUD_LABELS}
    return {
        **node,
        "metadata": {**metadata, "labels": own, "annotations": dict(annotations)},
        "spec": {**node["spec"], "taints": [*(node["spec"].get("taints") or ()), UNINITIALIZED]},
        "status": {**status, **{kind: _without_devices(status[kind]) for kind in _AMOUNTS}},
    }


def by_cloud(node: JsonObject) -> dict[str, str]:
    """Return the labels that the cloud controller and the EBS driver add."""
    given = node["metadata"]["labels"]
    added = {key: given[key] for key in _CLOUD_LABELS if key in given}
    return added | {old: added[key] for key, old in _OLD_NAMES.items() if key in added}


def devices(node: JsonObject) -> JsonObject:
    """Return what device plugins add to the Node's status; empty without devices."""
    found = {
        kind: {name: amount for name, amount in node["status"][kind].items() if _is_device(name)} for kind in _AMOUNTS
    }
    return found if found[_AMOUNTS[0]] else {}


def csi_node(node: JsonObject) -> JsonObject:
    """Return the EBS driver's CSINode for this Node, which owns it."""
    name = name_of(node)
    driver = {
        "name": EBS_DRIVER,
        "nodeID": node["spec"]["providerID"].rpartition("/")[2],
        "topologyKeys": [labels.EBS_ZONE],
        "allocatable": {"count": EBS_VOLUMES_MAX},
    }
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"drivers": [driver]},
    }


def name_of(node: JsonObject) -> str:
    """The Node's name."""
    return str(node["metadata"]["name"])


def is_same(node: JsonObject, other: JsonObject) -> bool:
    """Return whether these are the same Node at two moments, and not two Nodes with one name."""
    return bool(node["metadata"]["uid"] == other["metadata"]["uid"])


def _without_devices(amounts: JsonObject) -> JsonObject:
    return {name: amount for name, amount in amounts.items() if not _is_device(name)}


def _is_device(name: str) -> bool:
    """Return whether this is an extended resource: its domain is not Kubernetes' own."""
    return "/" in name and not name.partition("/")[0].endswith("kubernetes.io")
