"""Gives claims their volumes: an existing one that suits, or a new one from the class's provisioner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.objects import (
    Key,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
)
from simulator.cluster.store import Change, Store
from simulator.cluster.volumes.claims import (
    admits_node,
    can_provision,
    claims_of,
    class_of,
    is_bound,
    suitable_volumes,
    waits_for_consumer,
)
from simulator.cluster.work_queue import WorkQueue

_REGIONAL: Final = ("efs.csi.aws.com", "fsx.csi.aws.com", "s3.csi.aws.com")
"""Drivers whose volumes are reached from every zone."""


class VolumeBinder:
    """Binds claims at once, or once the scheduler has chosen a node, if their class waits for the first consumer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = WorkQueue(store.clock, self._reconcile)
        store.watch(self._claim_changed, kinds.PERSISTENT_VOLUME_CLAIMS)
        store.watch(self._retry, kinds.PERSISTENT_VOLUMES, kinds.STORAGE_CLASSES, kinds.NODES)
        store.watch(self._pod_created, kinds.PODS)

    def bind_for(self, pod: JsonObject, node: JsonObject) -> None:
        """Bind the pod's unbound claims, on this node."""
        for claim in claims_of(self._store, pod):
            if claim is not None and not is_bound(claim):
                volume = next((v for v in suitable_volumes(self._store, claim) if admits_node(v, node)), None)
                self._bind(claim, volume or self._provision(claim, labels_of(node).get(labels.ZONE, "")))

    def _claim_changed(self, change: Change) -> None:
        if change.new is None:
            self._release(change.obj)
        elif not is_bound(change.new):
            self._queue.add(key_of(change.new))

    def _retry(self, change: Change) -> None:
        if change.old is not None and change.resource == kinds.NODES:
            return
        for claim in self._store.all(kinds.PERSISTENT_VOLUME_CLAIMS):
            if not is_bound(claim):
                self._queue.add(key_of(claim))

    def _pod_created(self, change: Change) -> None:
        """A generic ephemeral volume is a claim that belongs to its pod."""
        if change.old is not None or change.new is None:
            return
        pod = change.new
        for volume in pod["spec"].get("volumes") or ():
            name = f"{name_of(pod)}-{volume['name']}"
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            if template and self._store.find(kinds.PERSISTENT_VOLUME_CLAIMS, name, namespace_of(pod)) is None:
                metadata = {**(template.get("metadata") or {}), "name": name, "namespace": namespace_of(pod)}
                metadata["ownerReferences"] = [owner_reference(kinds.PODS, pod)]
                body = {"metadata": metadata, "spec": template["spec"]}
                self._store.create(kinds.PERSISTENT_VOLUME_CLAIMS, body)

    def _reconcile(self, key: Key) -> None:
        claim = self._store.find(kinds.PERSISTENT_VOLUME_CLAIMS, key[1], key[0])
        if claim is None or is_bound(claim):
            return
        storage_class = class_of(self._store, claim)
        if waits_for_consumer(storage_class) and not spec_of(claim).get("volumeName"):
            return
        volume = next(iter(suitable_volumes(self._store, claim)), None)
        if volume is not None:
            self._bind(claim, volume)
        elif can_provision(storage_class) and not spec_of(claim).get("volumeName"):
            zone = self._some_zone(storage_class)
            if zone:
                self._bind(claim, self._provision(claim, zone))

    def _some_zone(self, storage_class: JsonObject | None) -> str:
        """A zone for a volume that no pod waits for, from those of the class or of nodes; empty if there is none yet."""
        allowed = (storage_class or {}).get("allowedTopologies") or ()
        zones = {
            zone
            for term in allowed
            for expression in term.get("matchLabelExpressions") or ()
            if expression["key"] in (labels.ZONE, labels.EBS_ZONE)
            for zone in expression["values"]
        } or {labels_of(node).get(labels.ZONE, "") for node in self._store.all(kinds.NODES)}
        zones.discard("")
        return self._store.rng.choice(sorted(zones)) if zones else ""

    def _provision(self, claim: JsonObject, zone: str) -> JsonObject:
        storage_class = class_of(self._store, claim) or {}
        driver = storage_class.get("provisioner", "")
        name = f"pvc-{uid_of(claim)}"
        spec: dict[str, Any] = {
            "capacity": (spec_of(claim).get("resources") or {}).get("requests") or {},
            "accessModes": spec_of(claim).get("accessModes") or ["ReadWriteOnce"],
            "storageClassName": spec_of(claim).get("storageClassName"),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "volumeMode": spec_of(claim)["volumeMode"],
            "claimRef": _reference(claim),
            "csi": {"driver": driver, "volumeHandle": f"vol-{uid_of(claim).replace('-', '')[:17]}"},
        }
        if zone and driver not in _REGIONAL:
            here = {"key": labels.ZONE, "operator": "In", "values": [zone]}
            spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}}
        metadata = {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": driver}}
        return self._store.create(kinds.PERSISTENT_VOLUMES, {"metadata": metadata, "spec": spec})

    def _bind(self, claim: JsonObject, volume: JsonObject) -> None:
        namespace, name = key_of(claim)
        bound: Mapping[str, Any] = {"spec": {"claimRef": _reference(claim)}, "status": {"phase": "Bound"}}
        self._store.patch(kinds.PERSISTENT_VOLUMES, name_of(volume), dict(bound))
        body = {"spec": {"volumeName": name_of(volume)}, "status": {"phase": "Bound"}}
        self._store.patch(kinds.PERSISTENT_VOLUME_CLAIMS, name, body, namespace=namespace)

    def _release(self, claim: JsonObject) -> None:
        """The claim is gone: its volume goes too, or stays, by its reclaim policy."""
        name = spec_of(claim).get("volumeName")
        volume = self._store.find(kinds.PERSISTENT_VOLUMES, name) if name else None
        if volume is None or status_of(volume).get("phase") != "Bound":
            return
        self._store.patch_status(kinds.PERSISTENT_VOLUMES, volume, phase="Released")
        if spec_of(volume)["persistentVolumeReclaimPolicy"] == "Delete":
            self._store.delete(kinds.PERSISTENT_VOLUMES, name_of(volume))


def _reference(claim: JsonObject) -> JsonObject:
    namespace, name = key_of(claim)
    return {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid_of(claim)}
