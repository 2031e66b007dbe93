"""Gives claims their volumes: an existing one that suits, or a new one from the class's provisioner."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.model.values import quantity
from simulator.cluster.controllers import WorkQueue, is_unreachable, matches_node_terms, selects
from simulator.cluster.store import (
    Change,
    Key,
    Store,
    is_finished,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    owner_reference,
    spec_of,
    status_of,
    uid_of,
)

# Claims, classes and volumes: what a pod claims, and which existing volume suits a claim.


WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"


def claim_names(pod: JsonObject) -> list[str]:
    """The names of the PersistentVolumeClaims that the pod mounts; generic ephemeral volumes have one of their own."""
    names = []
    for volume in pod["spec"].get("volumes") or ():
        if "persistentVolumeClaim" in volume:
            names.append(volume["persistentVolumeClaim"]["claimName"])
        elif "ephemeral" in volume:
            names.append(f"{name_of(pod)}-{volume['name']}")
    return names


def claims_of(store: Store, pod: JsonObject) -> list[JsonObject | None]:
    """Return the pod's claims, None for each missing one."""
    namespace = namespace_of(pod)
    return [store.find(resources.PERSISTENT_VOLUME_CLAIMS, name, namespace) for name in claim_names(pod)]


def class_of(store: Store, claim: JsonObject) -> JsonObject | None:
    """Return the claim's storage class, None if it names none or a missing one."""
    name = spec_of(claim).get("storageClassName")
    return store.find(resources.STORAGE_CLASSES, name) if name else None


def is_bound(claim: JsonObject) -> bool:
    """Whether the claim has its volume."""
    return status_of(claim).get("phase") == "Bound"


def volume_of(store: Store, claim: JsonObject) -> JsonObject | None:
    """The claim's volume, None before it is bound or when that is gone."""
    name = spec_of(claim).get("volumeName") if is_bound(claim) else None
    return store.find(resources.PERSISTENT_VOLUMES, name) if name else None


def admits_node(volume: JsonObject, node: JsonObject) -> bool:
    """Whether the volume can be reached from the node."""
    required = (spec_of(volume).get("nodeAffinity") or {}).get("required")
    return required is None or matches_node_terms(required.get("nodeSelectorTerms") or [], node)


def waits_for_consumer(storage_class: JsonObject | None) -> bool:
    """Whether volumes of the class are made where the first pod goes."""
    return storage_class is not None and storage_class["volumeBindingMode"] == WAIT_FOR_FIRST_CONSUMER


def can_provision(storage_class: JsonObject | None) -> bool:
    """Whether volumes of the class are made on demand."""
    return storage_class is not None and storage_class.get("provisioner") not in (None, "", NO_PROVISIONER)


def suitable_volumes(store: Store, claim: JsonObject) -> list[JsonObject]:
    """The free volumes that the claim could bind, the smallest first."""
    suitable = [volume for volume in store.all(resources.PERSISTENT_VOLUMES) if _suits(volume, claim)]
    return sorted(suitable, key=lambda volume: (_size(spec_of(volume).get("capacity")), name_of(volume)))


def topologies_admit(storage_class: JsonObject, node: JsonObject) -> bool:
    """Whether the class may provision where the node is."""
    allowed = storage_class.get("allowedTopologies")
    if not allowed:
        return True
    labels = labels_of(node)
    return any(
        all(labels.get(e["key"]) in e["values"] for e in term.get("matchLabelExpressions") or ()) for term in allowed
    )


def _suits(volume: JsonObject, claim: JsonObject) -> bool:
    spec, wanted = spec_of(volume), spec_of(claim)
    reference: dict[str, Any] = spec.get("claimRef") or {}
    is_reserved = (reference.get("namespace"), reference.get("name")) == (namespace_of(claim), name_of(claim))
    if reference and (not is_reserved or reference.get("uid", uid_of(claim)) != uid_of(claim)):
        return False
    if wanted.get("volumeName"):
        return bool(wanted["volumeName"] == name_of(volume))
    return (
        (spec.get("storageClassName") or "") == (wanted.get("storageClassName") or "")
        and set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ())
        and _size(spec.get("capacity")) >= _size((wanted.get("resources") or {}).get("requests"))
        and (wanted.get("selector") is None or selects(wanted["selector"], volume))
        and spec["volumeMode"] == wanted["volumeMode"]
        and status_of(volume).get("phase") != "Released"
    )


def _size(resources: JsonObject | None) -> int:
    return quantity.parse((resources or {}).get("storage", 0), "storage")


# VolumeAttachments: made when a pod with volumes is bound, gone some seconds after the last such pod left the node.


DETACH_DELAY: Final = timedelta(seconds=6)
"""From the end of the last pod that mounts a volume to the volume's release from the node."""

FORCED_DETACH_DELAY: Final = timedelta(minutes=6)
"""The same without a kubelet to report that the volume is unmounted (the attach-detach controller's own wait)."""


class VolumeAttacher:
    """Keeps VolumeAttachments in step with the pods on each node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.watch(self._pod_changed, resources.PODS)

    def can_mount(self, pod: JsonObject) -> bool:
        """Whether no other node still has one of the pod's volumes; shared volumes can be on several nodes."""
        return not any(self._held_elsewhere(volume, node_of(pod)) for volume in self._volumes(pod))

    def _pod_changed(self, change: Change) -> None:
        was_running = change.old is not None and _uses_volumes(change.old)
        is_running = change.new is not None and _uses_volumes(change.new)
        if is_running and change.new is not None and not was_running:
            for volume in self._volumes(change.new):
                self._attach(volume, node_of(change.new))
        elif was_running and not is_running:
            for volume in self._volumes(change.obj):
                self._plan_detach(name_of(volume), node_of(change.obj))

    def _volumes(self, pod: JsonObject) -> list[JsonObject]:
        """The pod's volumes that a CSI driver attaches."""
        bound = [volume_of(self._store, claim) for claim in claims_of(self._store, pod) if claim is not None]
        return [volume for volume in bound if volume is not None and spec_of(volume).get("csi")]

    def _held_elsewhere(self, volume: JsonObject, node: str) -> bool:
        if (
            "ReadWriteMany" in spec_of(volume).get("accessModes", ())
            or "ReadOnlyMany" in spec_of(volume)["accessModes"]
        ):
            return False
        attachments = self._store.all(resources.VOLUME_ATTACHMENTS)
        return any(_volume_name(a) == name_of(volume) and spec_of(a)["nodeName"] != node for a in attachments)

    def _attach(self, volume: JsonObject, node: str) -> None:
        name = _attachment_name(name_of(volume), node)
        if self._store.find(resources.VOLUME_ATTACHMENTS, name) is not None:
            return
        source = {"persistentVolumeName": name_of(volume)}
        spec = {"attacher": spec_of(volume)["csi"]["driver"], "nodeName": node, "source": source}
        made = self._store.create(resources.VOLUME_ATTACHMENTS, {"metadata": {"name": name}, "spec": spec})
        self._store.patch_status(resources.VOLUME_ATTACHMENTS, made, attached=True)

    def _plan_detach(self, volume: str, node: str) -> None:
        node_object = self._store.find(resources.NODES, node)
        is_heard_of = node_object is not None and not is_unreachable(node_object)
        delay = DETACH_DELAY if is_heard_of else FORCED_DETACH_DELAY
        self._store.clock.after(delay, lambda: self._detach(volume, node))

    def _detach(self, volume: str, node: str) -> None:
        for pod in self._store.pods_on(node):
            if _uses_volumes(pod) and volume in (name_of(v) for v in self._volumes(pod)):
                return
        name = _attachment_name(volume, node)
        if self._store.find(resources.VOLUME_ATTACHMENTS, name) is not None:
            self._store.delete(resources.VOLUME_ATTACHMENTS, name)


def _uses_volumes(pod: JsonObject) -> bool:
    return bool(node_of(pod)) and not is_finished(pod) and bool(pod["spec"].get("volumes"))


def _volume_name(attachment: JsonObject) -> str:
    return str((spec_of(attachment).get("source") or {}).get("persistentVolumeName", ""))


def _attachment_name(volume: str, node: str) -> str:
    return "csi-" + hashlib.sha256(f"{volume}/{node}".encode()).hexdigest()


_REGIONAL: Final = ("efs.csi.aws.com", "fsx.csi.aws.com", "s3.csi.aws.com")
"""Drivers whose volumes are reached from every zone."""


class VolumeBinder:
    """Binds claims at once, or once the scheduler has chosen a node, if their class waits for the first consumer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = WorkQueue(store.clock, self._reconcile)
        store.watch(self._claim_changed, resources.PERSISTENT_VOLUME_CLAIMS)
        store.watch(self._retry, resources.PERSISTENT_VOLUMES, resources.STORAGE_CLASSES, resources.NODES)
        store.watch(self._pod_created, resources.PODS)

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
        if change.old is not None and change.resource == resources.NODES:
            return
        for claim in self._store.all(resources.PERSISTENT_VOLUME_CLAIMS):
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
            if template and self._store.find(resources.PERSISTENT_VOLUME_CLAIMS, name, namespace_of(pod)) is None:
                metadata = {**(template.get("metadata") or {}), "name": name, "namespace": namespace_of(pod)}
                metadata["ownerReferences"] = [owner_reference(resources.PODS, pod)]
                body = {"metadata": metadata, "spec": template["spec"]}
                self._store.create(resources.PERSISTENT_VOLUME_CLAIMS, body)

    def _reconcile(self, key: Key) -> None:
        claim = self._store.find(resources.PERSISTENT_VOLUME_CLAIMS, key[1], key[0])
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
        } or {labels_of(node).get(labels.ZONE, "") for node in self._store.all(resources.NODES)}
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
        return self._store.create(resources.PERSISTENT_VOLUMES, {"metadata": metadata, "spec": spec})

    def _bind(self, claim: JsonObject, volume: JsonObject) -> None:
        namespace, name = key_of(claim)
        bound: Mapping[str, Any] = {"spec": {"claimRef": _reference(claim)}, "status": {"phase": "Bound"}}
        self._store.patch(resources.PERSISTENT_VOLUMES, name_of(volume), dict(bound))
        body = {"spec": {"volumeName": name_of(volume)}, "status": {"phase": "Bound"}}
        self._store.patch(resources.PERSISTENT_VOLUME_CLAIMS, name, body, namespace=namespace)

    def _release(self, claim: JsonObject) -> None:
        """The claim is gone: its volume goes too, or stays, by its reclaim policy."""
        name = spec_of(claim).get("volumeName")
        volume = self._store.find(resources.PERSISTENT_VOLUMES, name) if name else None
        if volume is None or status_of(volume).get("phase") != "Bound":
            return
        self._store.patch_status(resources.PERSISTENT_VOLUMES, volume, phase="Released")
        if spec_of(volume)["persistentVolumeReclaimPolicy"] == "Delete":
            self._store.delete(resources.PERSISTENT_VOLUMES, name_of(volume))


def _reference(claim: JsonObject) -> JsonObject:
    namespace, name = key_of(claim)
    return {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": name, "uid": uid_of(claim)}
