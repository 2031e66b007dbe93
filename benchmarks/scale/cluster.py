"""A large cluster's objects as its API server and its table hold them: nodes, 6 KB pods, volumes, claims."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

import msgspec

from core import labels
from core.api.objects import JsonObject
from core.lifecycle.records import ClaimPhase, ClaimRecord, CommandRecord, Machine
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from core.model.catalogue import Offering
from core.model.node_claim import ObjectRef
from core.model.plan import Command, PlannedClaim

NOW: Final = datetime(2026, 11, 20, 12, tzinfo=UTC)
COMMAND: Final = "second-look"
TYPE: Final = "m5.4xlarge"
ZONES: Final = ("us-east-1a", "us-east-1b", "us-east-1c")
POOLS: Final = 50
SERVICES: Final = 500
NAMESPACES: Final = 40
WITH_VOLUME: Final = 50
"""One pod in this many has a volume."""

_CREATED: Final = "2026-11-10T11:00:00Z"
_GIB: Final = 1024**3
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
            case kinds.PODS:
                yield from (self.pod(index) for index in range(self.pods))
            case kinds.NODES:
                yield from (self.node(index) for index in range(self.nodes))
            case kinds.CSI_NODES:
                yield from (_csi_node(node_name(index)) for index in range(self.nodes))
            case kinds.NODE_POOLS:
                yield from (_node_pool(index) for index in range(POOLS))
            case kinds.EC2_NODE_CLASSES:
                yield _node_class()
            case kinds.NAMESPACES:
                yield from ({"metadata": {"name": f"ns-{index}"}} for index in range(NAMESPACES))
            case kinds.POD_DISRUPTION_BUDGETS:
                yield from (_budget(index) for index in range(SERVICES))
            case kinds.PERSISTENT_VOLUMES | kinds.PERSISTENT_VOLUME_CLAIMS | kinds.VOLUME_ATTACHMENTS:
                for index in range(self.pending, self.pods, WITH_VOLUME):
                    yield _volume_object(resource, index, self.node_of(index))
            case kinds.STORAGE_CLASSES:
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
        return _pod(index, self.node_of(index))

    def node(self, index: int) -> JsonObject:
        """One node, initialized."""
        return _node(index)


def node_name(index: int) -> str:
    """Name of a node."""
    return f"ip-10-{index // 65536}-{index // 256 % 256}-{index % 256}.ec2.internal"


def instance_id(index: int) -> str:
    """Id of a node's instance."""
    return f"i-{index:017x}"


def claim(index: int) -> ClaimRecord:
    """The claim of a node, with nothing left to do."""
    pool, zone = f"pool-{index % POOLS}", ZONES[index % len(ZONES)]
    labels = {key: value for key, value in _node_labels(index).items() if key != "kubernetes.io/hostname"}
    offering = Offering(TYPE, zone, "on-demand", 768_000_000)
    amounts = {"cpu": 16000, "memory": 62 * _GIB * 1000, "pods": 234_000, "ephemeral-storage": 20 * _GIB * 1000}
    return ClaimRecord(
        name=claim_name(index),
        plan=PlannedClaim(
            name=claim_name(index),
            node_pool=pool,
            node_class=ObjectRef("karpenter.k8s.aws", "EC2NodeClass", "default"),
            labels={"karpenter.sh/nodepool": pool},
            zones=(zone,),
            capacity_types=("on-demand",),
            resources=amounts,
            expire_after=timedelta(days=30),
        ),
        token=f"token-{index}",
        requested_at=NOW - timedelta(days=10),
        phase_since=NOW - timedelta(days=10),
        phase=ClaimPhase.INITIALIZED,
        version=4,
        reserved=amounts,
        machine=Machine(
            instance_id=instance_id(index),
            provider_id=f"aws:///{zone}/{instance_id(index)}",
            offering=offering,
            image_id="ami-0123456789abcdef0",
            labels=labels,
            capacity=amounts,
            allocatable=amounts,
        ),
        node_name=node_name(index),
        initialized_at=NOW - timedelta(days=10),
        last_pod_event_at=NOW - timedelta(hours=1),
    )


def command() -> CommandRecord:
    """A consolidation of one node that is due for validation."""
    found = Command(
        reason="Underutilized", method="single", nodes=(node_name(20),), claims=(claim_name(20),), savings=1
    )
    decided = NOW - timedelta(minutes=1)
    return CommandRecord(
        id=COMMAND, command=found, created_at=decided, verify_at=decided, phase_since=decided, version=1
    )


def claim_name(index: int) -> str:
    """Name of a node's claim."""
    return f"pool-{index % POOLS}-{index}-0"


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
        f"<instanceState><code>16</code><name>running</name></instanceState><launchTime>{_CREATED}</launchTime>"
        f"<privateDnsName>{node_name(index)}</privateDnsName><imageId>ami-0123456789abcdef0</imageId>"
        f"<tagSet>{items}</tagSet></item></instancesSet></item>"
    )


def _node_labels(index: int) -> dict[str, str]:
    zone = ZONES[index % len(ZONES)]
    return {
        "kubernetes.io/hostname": node_name(index),
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": TYPE,
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": "us-east-1",
        "karpenter.sh/nodepool": f"pool-{index % POOLS}",
        "karpenter.sh/capacity-type": "on-demand",
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
        "karpenter.k8s.aws/instance-family": "m5",
        "karpenter.k8s.aws/instance-category": "m",
        "karpenter.k8s.aws/instance-cpu": "16",
        "karpenter.k8s.aws/instance-memory": "65536",
    }


def _node(index: int) -> JsonObject:
    images = [{"names": [f"registry.example.com/image-{n}@sha256:{n:064x}"], "sizeBytes": n} for n in range(40)]
    ready = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": _CREATED,
        "reason": "KubeletReady",
        "message": "ok",
    }
    return {
        "metadata": {
            "name": node_name(index),
            "uid": f"node-{index:08d}",
            "resourceVersion": str(index),
            "creationTimestamp": _CREATED,
            "labels": _node_labels(index),
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
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _CREATED, "reason": "Ready"}],
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
    if resource == kinds.PERSISTENT_VOLUME_CLAIMS:
        metadata = {"name": f"data-{index}", "namespace": namespace}
        spec = {"volumeName": volume, "storageClassName": "gp3"}
    elif resource == kinds.VOLUME_ATTACHMENTS:
        metadata = {"name": f"csi-{index}"}
        spec = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": volume}}
    return {"metadata": metadata, "spec": spec}


def _pod(index: int, node: str) -> JsonObject:
    service = index % SERVICES
    app, replica_set = f"web-{service}", f"web-{service}-7d9f8b6c5d"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": replica_set, "uid": replica_set, "controller": True}
    metadata = {
        "name": f"{replica_set}-{index:06x}",
        "generateName": f"{replica_set}-",
        "namespace": f"ns-{service % NAMESPACES}",
        "uid": f"00000000-0000-4000-8000-{index:012d}",
        "resourceVersion": str(index),
        "creationTimestamp": _CREATED,
        "labels": {"app": app, "pod-template-hash": "7d9f8b6c5d", "team": f"t{service % 40}", "tier": "web"},
        "annotations": {"prometheus.io/scrape": "true", "example.com/address": f"10.0.{index // 256}.{index % 256}"},
        "ownerReferences": [owner],
        "managedFields": [_managed("kube-controller-manager", 15), _managed("kubelet", 5)],
    }
    return {"metadata": metadata, "spec": _pod_spec(app, index, node), "status": _pod_status(node)}


def _pod_spec(app: str, index: int, node: str) -> JsonObject:
    container = {
        "name": "main",
        "image": f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{app}:v1",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "env": [{"name": f"VAR_{n}", "value": "some-value-of-a-variable"} for n in range(20)],
        "resources": {"limits": {"memory": "2800Mi"}, "requests": {"cpu": "700m", "memory": "2800Mi"}},
        "volumeMounts": [{"name": "token", "readOnly": True, "mountPath": "/var/run/secrets/token"}],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10},
        "terminationMessagePath": "/dev/termination-log",
        "imagePullPolicy": "IfNotPresent",
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": app}},
    }
    token: JsonObject = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    has_volume = node and index % WITH_VOLUME == 0
    data: list[JsonObject] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-{index}"}}]
    return {
        "volumes": [token, *(data if has_volume else [])],
        "containers": [container],
        "restartPolicy": "Always",
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
        "topologySpreadConstraints": [spread],
        "tolerations": [_passing("not-ready"), _passing("unreachable")],
        "priority": 0,
        **({"nodeName": node} if node else {}),
    }


def _pod_status(node: str) -> JsonObject:
    if not node:
        waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": _CREATED}
        return {"phase": "Pending", "conditions": [waits]}
    container = {
        "name": "main",
        "state": {"running": {"startedAt": _CREATED}},
        "ready": True,
        "restartCount": 0,
        "allocatedResources": {"cpu": "700m", "memory": "2800Mi"},
        "resources": {"limits": {"memory": "2800Mi"}, "requests": {"cpu": "700m", "memory": "2800Mi"}},
        "imageID": "123456789012.dkr.ecr.us-east-1.amazonaws.com/web@sha256:" + "a" * 64,
        "containerID": "containerd://" + "b" * 64,
    }
    types = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    return {
        "phase": "Running",
        "conditions": [{"type": name, "status": "True", "lastTransitionTime": _CREATED} for name in types],
        "startTime": _CREATED,
        "containerStatuses": [container],
        "qosClass": "Burstable",
    }


def _managed(manager: str, entries: int) -> JsonObject:
    fields: JsonObject = {f'k:{{"name":"VAR_{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(entries)}
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "time": _CREATED, "fieldsV1": fields}


def _passing(state: str) -> JsonObject:
    key = f"node.kubernetes.io/{state}"
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
