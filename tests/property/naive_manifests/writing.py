"""A cluster as the objects that an API server would list, and the cluster again as the product reads them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from random import Random
from typing import Any

import msgspec

from core.api.objects import JsonObject
from core.manifests.assemble import ObjectProblem, assemble
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.node_pool import NodePool
from core.model.plan import NodeClaim
from core.model.pod import PersistentVolume, PersistentVolumeClaim, StorageClass
from core.model.snapshot import DaemonSet, Node, PodDisruptionBudget, Snapshot
from core.model.values.taints import Taint
from tests.property.naive_manifests.pod_writing import PodWriter, expression, node_expression

Objects = dict[Resource, list[JsonObject]]


def written(snapshot: Snapshot, draw: Random, *, defaulted: bool) -> Objects:
    """Every object of the cluster that is read from the API."""
    pods = PodWriter(draw, defaulted=defaulted)
    csi = [_csi_node(node) for node in snapshot.nodes if node.attach_limits]
    return {
        resources.PODS: [pods.pod(pod) for pod in snapshot.pods],
        resources.NODES: [_node(node) for node in snapshot.nodes],
        resources.CSI_NODES: csi,
        resources.NODE_CLAIMS: [_node_claim(claim) for claim in snapshot.node_claims],
        resources.NODE_POOLS: [_node_pool(pool) for pool in snapshot.node_pools],
        resources.DAEMON_SETS: [_daemon_set(daemon, pods) for daemon in snapshot.daemon_sets],
        resources.PERSISTENT_VOLUMES: [_volume(volume) for volume in snapshot.volumes],
        resources.PERSISTENT_VOLUME_CLAIMS: [_volume_claim(claim) for claim in snapshot.volume_claims],
        resources.STORAGE_CLASSES: [_storage_class(found) for found in snapshot.storage_classes],
        resources.VOLUME_ATTACHMENTS: [
            {"metadata": {"name": a.name},
             "spec": {"nodeName": a.node_name, "source": {"persistentVolumeName": a.volume_name}}}
            for a in snapshot.attachments
        ],
        resources.NAMESPACES: [{"metadata": {"name": n.name, "labels": n.labels}} for n in snapshot.namespaces],
        resources.POD_DISRUPTION_BUDGETS: [_budget(budget, pods) for budget in snapshot.budgets],
    }  # fmt: skip


def read(objects: Objects, like: Snapshot, *, pages: bool) -> tuple[Snapshot, tuple[ObjectProblem, ...]]:
    """The cluster as the functions read API pages, or as the command line reads manifests; prices and options as in `like`."""
    found: dict[Resource, list[Any]] = {}
    for resource, items in objects.items():
        if pages:
            page = json.dumps({"kind": "List", "items": items}).encode()
            found[resource] = list(decoding.decode_page(resource, page).items)
        else:
            found[resource] = [decoding.from_object(resource, item) for item in items]
    snapshot, problems = assemble(
        found, now=like.now, catalogue=like.catalogue, options=like.options, cluster=like.cluster
    )
    return msgspec.structs.replace(snapshot, marked_for_deletion=like.marked_for_deletion), problems


def _metadata(item: Any) -> JsonObject:
    found: JsonObject = {"name": item.name, "labels": getattr(item, "labels", {})}
    found["annotations"] = getattr(item, "annotations", {})
    for name, key in (("created_at", "creationTimestamp"), ("deleted_at", "deletionTimestamp")):
        moment = getattr(item, name, None)
        found |= {key: moment.isoformat()} if moment is not None else {}
    return found


def _taints(taints: Iterable[Taint]) -> list[JsonObject]:
    return [{"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})} for t in taints]


def _amounts(amounts: dict[str, int]) -> dict[str, str]:
    return {name: f"{amount}m" if name == "cpu" else str(amount) for name, amount in amounts.items()}


def _node(node: Node) -> JsonObject:
    conditions = [{"type": "Ready", "status": str(node.is_ready)}]
    return {
        "metadata": _metadata(node),
        "spec": {"providerID": node.provider_id, "taints": _taints(node.taints)},
        "status": {"capacity": _amounts(node.capacity), "allocatable": _amounts(node.allocatable), "conditions": conditions},
    }  # fmt: skip


def _csi_node(node: Node) -> JsonObject:
    drivers = [{"name": d, "nodeID": node.name, "allocatable": {"count": n}} for d, n in node.attach_limits.items()]
    return {"metadata": {"name": node.name}, "spec": {"drivers": drivers}}


def _class_ref(item: NodePool | NodeClaim) -> JsonObject:
    assert item.node_class is not None
    return {"group": item.node_class.group, "kind": item.node_class.kind, "name": item.node_class.name}


def _node_claim(claim: NodeClaim) -> JsonObject:
    status: JsonObject = {"capacity": _amounts(claim.capacity), "allocatable": _amounts(claim.allocatable)}
    status |= {"providerID": claim.provider_id} if claim.provider_id else {}
    status |= {"nodeName": claim.node_name} if claim.node_name else {}
    status["conditions"] = [
        {
            "type": name,
            "status": c.status,
            "reason": c.reason or name,
            "lastTransitionTime": c.changed_at and c.changed_at.isoformat(),
        }
        for name, c in claim.conditions.items()
    ]
    spec = {
        "nodeClassRef": _class_ref(claim), "requirements": [expression(r) for r in claim.requirements],
        "taints": _taints(claim.taints), "startupTaints": _taints(claim.startup_taints),
        "resources": {"requests": _amounts(claim.resources)},
    }  # fmt: skip
    who = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": _metadata(claim)}
    return {**who, "spec": spec, "status": status}


def _node_pool(pool: NodePool) -> JsonObject:
    template: JsonObject = {
        "nodeClassRef": _class_ref(pool), "requirements": [expression(r) for r in pool.requirements],
        "taints": _taints(pool.taints), "startupTaints": _taints(pool.startup_taints),
    }  # fmt: skip
    if pool.expire_after is not None:
        template["expireAfter"] = f"{int(pool.expire_after.total_seconds())}s"
    else:
        template["expireAfter"] = "Never"
    if pool.termination_grace_period is not None:
        template["terminationGracePeriod"] = f"{int(pool.termination_grace_period.total_seconds())}s"
    metadata = {"labels": pool.labels, "annotations": pool.annotations}
    spec: JsonObject = {"template": {"metadata": metadata, "spec": template}}
    spec |= {"weight": pool.weight} if pool.weight else {}
    spec |= {"limits": _amounts(pool.limits)} if pool.limits else {}
    spec |= {"replicas": pool.replicas} if pool.replicas is not None else {}
    status: JsonObject = {}
    if pool.is_ready is not None:
        status = {"conditions": [{"type": "Ready", "status": str(pool.is_ready)}]}
    who = {"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool.name}}
    return {**who, "spec": spec, "status": status}


def _daemon_set(daemon: DaemonSet, pods: PodWriter) -> JsonObject:
    template = {"metadata": {"labels": daemon.labels}, "spec": pods.spec(daemon.spec)}
    selector = {"matchLabels": daemon.labels}
    who = {"name": daemon.name, "namespace": daemon.namespace}
    return {"metadata": who, "spec": {"selector": selector, "template": template}}


def _volume(volume: PersistentVolume) -> JsonObject:
    terms = [{"matchExpressions": [node_expression(r) for r in term.requirements]} for term in volume.node_terms]
    spec: JsonObject = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if terms else {}
    if volume.is_local:
        spec["local"] = {"path": "/mnt/disk"}
    elif volume.driver:
        spec["csi"] = {"driver": volume.driver, "volumeHandle": volume.name}
    spec |= {"capacity": {"storage": str(volume.size)}} if volume.size else {}
    spec |= {"accessModes": list(volume.access_modes)} if volume.access_modes else {}
    spec |= {"storageClassName": volume.storage_class} if volume.storage_class else {}
    metadata = {"name": volume.name, "labels": volume.labels}
    return {"metadata": metadata, "spec": spec, "status": {"phase": volume.phase}}


def _volume_claim(claim: PersistentVolumeClaim) -> JsonObject:
    request = claim.request
    spec: JsonObject = {"volumeName": claim.volume_name} if claim.volume_name else {}
    spec |= {"accessModes": list(request.access_modes)} if request.access_modes else {}
    spec |= {"resources": {"requests": {"storage": str(request.size)}}} if request.size else {}
    spec |= {"storageClassName": claim.storage_class} if claim.storage_class is not None else {}
    done = {"pv.kubernetes.io/bind-completed": "yes"} if claim.is_bind_completed else {}
    done |= {"volume.kubernetes.io/selected-node": claim.selected_node} if claim.selected_node else {}
    metadata = {"name": claim.name, "namespace": claim.namespace, "annotations": done}
    return {"metadata": metadata, "spec": spec, "status": {"phase": claim.phase}}


def _storage_class(found: StorageClass) -> JsonObject:
    default = {"storageclass.kubernetes.io/is-default-class": "true"} if found.is_default else {}
    allowed = [
        {"matchLabelExpressions": [{"key": r.key, "values": list(r.values)} for r in term.requirements]}
        for term in found.allowed_topologies
    ]
    return {
        "metadata": {"name": found.name, "annotations": default}, "provisioner": found.provisioner,
        "volumeBindingMode": found.binding_mode, "allowedTopologies": allowed,
    }  # fmt: skip


def _budget(budget: PodDisruptionBudget, pods: PodWriter) -> JsonObject:
    spec: JsonObject = {"selector": pods.selector(budget.selector)} if budget.selector is not None else {}
    for key, text in (("maxUnavailable", budget.max_unavailable), ("minAvailable", budget.min_available)):
        if text is not None:
            spec[key] = text if text.endswith("%") else int(text)
    if budget.unhealthy_pod_eviction_policy:
        spec["unhealthyPodEvictionPolicy"] = budget.unhealthy_pod_eviction_policy
    status = {} if budget.disruptions_allowed is None else {"disruptionsAllowed": budget.disruptions_allowed}
    return {"metadata": {"name": budget.name, "namespace": budget.namespace}, "spec": spec, "status": status}
