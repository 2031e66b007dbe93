"""VolumeAttachments: made when a pod with volumes is bound, gone some seconds after the last such pod left the node."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Final

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.node_lifecycle import is_unreachable
from simulator.cluster.objects import is_finished, name_of, node_of, spec_of
from simulator.cluster.store import Change, Store
from simulator.cluster.volumes.claims import claims_of, volume_of

DETACH_DELAY: Final = timedelta(seconds=6)
"""From the end of the last pod that mounts a volume to the volume's release from the node."""

FORCED_DETACH_DELAY: Final = timedelta(minutes=6)
"""The same without a kubelet to report that the volume is unmounted (the attach-detach controller's own wait)."""


class VolumeAttacher:
    """Keeps VolumeAttachments in step with the pods on each node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.watch(self._pod_changed, kinds.PODS)

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
        attachments = self._store.all(kinds.VOLUME_ATTACHMENTS)
        return any(_volume_name(a) == name_of(volume) and spec_of(a)["nodeName"] != node for a in attachments)

    def _attach(self, volume: JsonObject, node: str) -> None:
        name = _attachment_name(name_of(volume), node)
        if self._store.find(kinds.VOLUME_ATTACHMENTS, name) is not None:
            return
        source = {"persistentVolumeName": name_of(volume)}
        spec = {"attacher": spec_of(volume)["csi"]["driver"], "nodeName": node, "source": source}
        made = self._store.create(kinds.VOLUME_ATTACHMENTS, {"metadata": {"name": name}, "spec": spec})
        self._store.patch_status(kinds.VOLUME_ATTACHMENTS, made, attached=True)

    def _plan_detach(self, volume: str, node: str) -> None:
        found = self._store.find(kinds.NODES, node)
        is_heard_of = found is not None and not is_unreachable(found)
        delay = DETACH_DELAY if is_heard_of else FORCED_DETACH_DELAY
        self._store.clock.after(delay, lambda: self._detach(volume, node))

    def _detach(self, volume: str, node: str) -> None:
        for pod in self._store.pods_on(node):
            if _uses_volumes(pod) and volume in (name_of(v) for v in self._volumes(pod)):
                return
        name = _attachment_name(volume, node)
        if self._store.find(kinds.VOLUME_ATTACHMENTS, name) is not None:
            self._store.delete(kinds.VOLUME_ATTACHMENTS, name)


def _uses_volumes(pod: JsonObject) -> bool:
    return bool(node_of(pod)) and not is_finished(pod) and bool(pod["spec"].get("volumes"))


def _volume_name(attachment: JsonObject) -> str:
    return str((spec_of(attachment).get("source") or {}).get("persistentVolumeName", ""))


def _attachment_name(volume: str, node: str) -> str:
    return "csi-" + hashlib.sha256(f"{volume}/{node}".encode()).hexdigest()
