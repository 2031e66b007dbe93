"""A large cluster's objects as its API server has them, and its instances as EC2 does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from benchmarks.scale.names import (
    CREATED,
    NAMESPACES,
    POOLS,
    SERVICES,
    TYPE,
    WITH_VOLUME,
    ZONES,
    claim_name,
    instance_id,
    node_labels,
    node_name,
)
from benchmarks.scale.pods import pod_on
from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource

_CAPACITY: Final = {"cpu": "16", "memory": "65011712Ki", "pods": "234", "ephemeral-storage": "20959212Ki"}
_ALLOCATABLE: Final = {"cpu": "15890m", "memory": "60000000Ki", "pods": "234", "ephemeral-storage": "18242267924"}


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The size of the cluster. All pods but the `pending` ones are bound, in equal numbers per node."""

    nodes: int
    pods: int
    pending: int = 0

    def objects(self, resource: Resource) -> Iterator[JsonObject]:
        """Every object of a kind."""
        match resource:
            case resources.PODS:
                yield from (self.pod(index) for index in range(self.pods))
            case resources.NODES:
                yield from (self.node(index) for index in range(self.nodes))
            case resources.CSI_NODES:
                yield from (_csi_node(node_name(index)) for index in range(self.nodes))
            case resources.NODE_POOLS:
                yield from (_node_pool(index) for index in range(POOLS))
            case resources.EC2_NODE_CLASSES:
                yield _node_class()
            case resources.NAMESPACES:
                yield from ({"metadata": {"name": f"ns-{index}"}} for index in range(NAMESPACES))
            case resources.POD_DISRUPTION_BUDGETS:
                yield from (_budget(index) for index in range(SERVICES))
            case resources.PERSISTENT_VOLUMES | resources.PERSISTENT_VOLUME_CLAIMS | resources.VOLUME_ATTACHMENTS:
                for index in range(self.pending, self.pods, WITH_VOLUME):
                    yield _volume_object(resource, index, self.node_of(index))
            case resources.STORAGE_CLASSES:
                yield {"metadata": {"name": "gp3"}, "provisioner": "ebs.csi.aws.com"}
            case _:
                return

    def node_of(self, index: int) -> str:
        """The node of a pod, empty for one that waits."""
        return "" if index < self.pending else node_name(index % self.nodes)

    def pods_of(self, node: str) -> Iterator[JsonObject]:
        """The pods of one node, or those of none."""
        yield from (self.pod(index) for index in range(self.pods) if self.node_of(index) == node)

    def pod(self, index: int) -> JsonObject:
        """One pod, with what controllers, admission and kubelets add."""
        return pod_on(index, self.node_of(index))

    def node(self, index: int) -> JsonObject:
        """One node, initialized."""
        return _node(index)


def instance_xml(index: int, cluster: str) -> str:
    """A node's instance as EC2 describes it."""
    tags = {
        f"kubernetes.io/cluster/{cluster}": "owned",
        "eks:eks-cluster-name": cluster,
        labels.NODECLAIM: claim_name(index),
    }
    tags |= {"karpenter.sh/nodepool": f"pool-{index % POOLS}", "Name": claim_name(index)}
    items = "".join(f"<item><key>{key}</key><value>{value}</value></item>" for key, value in tags.items())
    return (
        f"<item><instancesSet><item><instanceId>{instance_id(index)}</instanceId><instanceType>{TYPE}</instanceType>"
        f"<placement><availabilityZone>{ZONES[index % len(ZONES)]}</availabilityZone></placement>"
        f"<instanceState><code>16</code><name>running</name></instanceState><launchTime>{CREATED}</launchTime>"
        f"<privateDnsName>{node_name(index)}</privateDnsName><imageId>ami-0123456789abcdef0</imageId>"
        f"<tagSet>{items}</tagSet></item></instancesSet></item>"
    )


def _node(index: int) -> JsonObject:
    images = [{"names": [f"registry.example.com/image-{n}@sha256:{n:064x}"], "sizeBytes": n} for n in range(40)]
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": CREATED,
        "reason": "KubeletReady",
        "message": "ok",
    }
    return {
        "metadata": {
            "name": node_name(index),
            "uid": f"node-{index:08d}",
            "resourceVersion": str(index),
            "creationTimestamp": CREATED,
            "labels": node_labels(index),
            "annotations": {"node.alpha.kubernetes.io/ttl": "0", "csi.volume.kubernetes.io/nodeid": instance_id(index)},
        },
        "spec": {"providerID": f"aws:///{ZONES[index % len(ZONES)]}/{instance_id(index)}"},
        "status": {"capacity": _CAPACITY, "allocatable": _ALLOCATABLE, "conditions": [ready], "images": images},
    }


def _csi_node(name: str) -> JsonObject:
    driver = {"name": "ebs.csi.aws.com", "nodeID": name, "allocatable": {"count": 25}}
    return {"metadata": {"name": name}, "spec": {"drivers": [driver]}}


def _node_pool(index: int) -> JsonObject:
    requirements = [
        {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [TYPE, "m6i.4xlarge"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
    ]
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "1m",
        "budgets": [{"nodes": "10%"}],
    }
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": f"pool-{index}", "uid": f"pool-{index}", "generation": 1},
        "spec": {
            "template": {"spec": {"requirements": requirements, "nodeClassRef": reference}},
            "disruption": disruption,
        },
    }


def _node_class() -> JsonObject:
    subnets = [{"id": f"subnet-{zone}", "zone": zone, "zoneID": f"use1-az{n}"} for n, zone in enumerate(ZONES, 1)]
    architecture = {"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]}
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "class", "generation": 1},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"k": "v"}}],
            "securityGroupSelectorTerms": [{"tags": {"k": "v"}}],
        },
        "status": {
            "subnets": subnets,
            "securityGroups": [{"id": "sg-1", "name": "nodes"}],
            "amis": [{"id": "ami-0123456789abcdef0", "name": "al2023", "requirements": [architecture]}],
            "instanceProfile": "nodes",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": CREATED, "reason": "Ready"}],
        },
    }


def _budget(service: int) -> JsonObject:
    return {
        "metadata": {"name": f"web-{service}", "namespace": f"ns-{service % NAMESPACES}"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": f"web-{service}"}}},
        "status": {"disruptionsAllowed": 1, "observedGeneration": 1},
    }


def _volume_object(resource: Resource, index: int, node: str) -> JsonObject:
    namespace, volume = f"ns-{index % SERVICES % NAMESPACES}", f"pv-{index}"
    metadata: JsonObject = {"name": volume}
    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{index:017x}"}
    spec: JsonObject = {"csi": csi, "storageClassName": "gp3"}
    if resource == resources.PERSISTENT_VOLUME_CLAIMS:
        metadata = {"name": f"data-{index}", "namespace": namespace}
        spec = {"volumeName": volume, "storageClassName": "gp3"}
    elif resource == resources.VOLUME_ATTACHMENTS:
        metadata = {"name": f"csi-{index}"}
        spec = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": volume}}
    return {"metadata": metadata, "spec": spec}
