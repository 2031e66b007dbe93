"""The Node as each of its writers knows it: the kubelet first, then the cloud controller and the EBS driver."""

from __future__ import annotations

from typing import Final

from core import labels
from lambdas.ports import JsonObject
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
_OLD_NAMES: Final = {
    labels.INSTANCE_TYPE: "beta.kubernetes.io/instance-type",
    labels.REGION: "failure-domain.beta.kubernetes.io/region",
    labels.ZONE: "failure-domain.beta.kubernetes.io/zone",
}


def split(node: JsonObject) -> tuple[JsonObject, dict[str, str]]:
    """The Node as the kubelet creates it, and the labels that it gets from others a moment later."""
    given = node["metadata"]["labels"]
    by_cloud = {key: given[key] for key in _CLOUD_LABELS if key in given}
    by_cloud |= {_OLD_NAMES[key]: value for key, value in by_cloud.items() if key in _OLD_NAMES}
    own = {key: value for key, value in given.items() if key not in by_cloud}
    metadata = {**node["metadata"], "labels": own, "annotations": FAKE}
    spec = {**node["spec"], "taints": [*(node["spec"].get("taints") or ()), UNINITIALIZED]}
    return {**node, "metadata": metadata, "spec": spec}, by_cloud


def csi_node(node: JsonObject) -> JsonObject:
    """What the EBS driver says of itself on the node; it goes with the Node."""
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
    """Whether these are one Node at two moments, and not two of one name."""
    return bool(node["metadata"]["uid"] == other["metadata"]["uid"])
