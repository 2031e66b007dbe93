"""What Karpenter leaves in a cluster, for the tests of its takeover."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from core import labels
from core.api.translation import node_claim
from core.lifecycle.records import ClaimRecord
from core.lifecycle.takeover import LaunchedClaim, Owners
from core.model.node_pool import NodeClass
from core.model.snapshot import Node
from tests.builders import NOW, a_pool

NAME, NODE, INSTANCE = "default-x7k2p", "ip-10-0-1-7.ec2.internal", "i-0abc"
PROVIDER_ID = f"aws:///us-east-1a/{INSTANCE}"
CLUSTER = "prod"
FINALIZER = "karpenter.sh/termination"
TAGS = {
    "kubernetes.io/cluster/prod": "owned",
    labels.CLUSTER_TAG: CLUSTER,
    labels.NODEPOOL: "default",
    labels.NODECLASS: "default",
    labels.NODECLAIM: NAME,
    "Name": NODE,
}
HASHES = {
    labels.NODEPOOL_HASH: "4012513481623584108",
    labels.NODEPOOL_HASH_VERSION: "v3",
    labels.NODECLASS_HASH: "11148166120438674859",
    labels.NODECLASS_HASH_VERSION: "v6",
}


def a_condition(kind: str, status: str = "True", reason: str = "") -> dict[str, Any]:
    return {
        "type": kind,
        "status": status,
        "reason": reason or kind,
        "message": "",
        "lastTransitionTime": "2026-11-19T20:01:00Z",
        "observedGeneration": 1,
    }


def a_manifest(*more: dict[str, Any], **status: Any) -> dict[str, Any]:
    """A working NodeClaim as Karpenter 1.14 writes it; `more` are further conditions."""
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": NAME,
            "uid": "uid-of-claim",
            "creationTimestamp": "2026-11-19T20:00:00Z",
            "generation": 1,
            "resourceVersion": "17",
            "finalizers": [FINALIZER],
            "labels": {
                labels.NODEPOOL: "default",
                labels.NODECLASS: "default",
                labels.CAPACITY_TYPE: "spot",
                labels.INSTANCE_TYPE: "m5.large",
                labels.ZONE: "us-east-1a",
                "team": "a",
            },
            "annotations": {
                **HASHES,
                "karpenter.k8s.aws/tagged": "true",
                "karpenter.k8s.aws/instance-profile-name": "prod_1234",
            },
            "ownerReferences": [
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodePool",
                    "name": "default",
                    "uid": "uid-of-pool",
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            "requirements": [
                {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large", "m5.xlarge"]},
                {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["spot"]},
            ],
            "resources": {"requests": {"cpu": "1", "pods": "4"}},
            "expireAfter": "720h",
            "taints": [{"key": "team", "value": "a", "effect": "NoSchedule"}],
        },
        "status": {
            "providerID": PROVIDER_ID,
            "nodeName": NODE,
            "imageID": "ami-1",
            "capacity": {"cpu": "2", "memory": "8Gi", "pods": "29"},
            "allocatable": {"cpu": "1930m", "memory": "7Gi", "pods": "29"},
            "lastPodEventTime": "2026-11-19T22:00:00Z",
            "conditions": [*(a_condition(kind) for kind in ("Launched", "Registered", "Initialized", "Ready")), *more],
            **status,
        },
    }


def a_karpenter_node(**changes: Any) -> Node:
    node_labels = {labels.REGISTERED: "true", labels.INITIALIZED: "true", labels.NODEPOOL: "default"}
    fields = {"provider_id": PROVIDER_ID, "labels": node_labels, "finalizers": (FINALIZER,), "is_ready": True}
    return Node(**{"name": NODE, **fields, **changes})


def a_launched_claim(manifest: dict[str, Any] | None = None, **changes: Any) -> LaunchedClaim:
    obj = manifest or a_manifest()
    fields = {
        "node_claim": node_claim(obj),
        "finalizers": tuple(obj["metadata"].get("finalizers") or ()),
        "nodes": (a_karpenter_node(),),
        "tags": TAGS,
        "launched_at": NOW - timedelta(hours=4),
    }
    return LaunchedClaim(**{**fields, **changes})


def a_class(**changes: Any) -> NodeClass:
    return NodeClass(**{"name": "default", "spec_hash": "class-of-today", **changes})


def the_owners(records: Mapping[str, ClaimRecord] | None = None, **changes: Any) -> Owners:
    pool = a_pool(template_hash="pool-of-today")
    fields = {"cluster": CLUSTER, "pools": {"default": pool}, "node_classes": {"default": a_class()}}
    return Owners(**{**fields, "records": dict(records or {}), **changes})
