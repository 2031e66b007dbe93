"""The provisioner of a CSI driver: where the scheduler chose a node for a claim, a volume in that node's zone."""

from __future__ import annotations

import threading
from typing import Final

from adapters.ports import JsonObject, PortError
from tests.e2e.parts.admin import Admin

DRIVER: Final = "ebs.csi.aws.com"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
ZONE: Final = "topology.kubernetes.io/zone"
POLL_INTERVAL: Final = 1.0


class VolumeProvisioner:
    """Makes PersistentVolumes for claims of our driver's classes and binds them; nothing is attached, kwok could not."""

    def __init__(self, admin: Admin) -> None:
        self._admin = admin
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._closed.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._closed.wait(POLL_INTERVAL):
            try:
                self._look()
            except PortError:
                continue

    def _look(self) -> None:
        waiting = [claim for claim in self._admin.list("persistentvolumeclaims") if _waits(claim)]
        if not waiting:
            return
        classes = {one["metadata"]["name"]: one for one in self._admin.list("storageclasses.storage.k8s.io")}
        zones = {
            node["metadata"]["name"]: node["metadata"]["labels"].get(ZONE, "") for node in self._admin.list("nodes")
        }
        for claim in waiting:
            storage_class = classes.get(claim["spec"].get("storageClassName") or "")
            zone = zones.get(claim["metadata"]["annotations"][SELECTED_NODE])
            if storage_class is not None and storage_class["provisioner"] == DRIVER and zone:
                self._admin.apply([_volume(claim, storage_class, zone)])


def _waits(claim: JsonObject) -> bool:
    annotations = claim["metadata"].get("annotations") or {}
    return not claim["spec"].get("volumeName") and SELECTED_NODE in annotations


def _volume(claim: JsonObject, storage_class: JsonObject, zone: str) -> JsonObject:
    metadata, spec = claim["metadata"], claim["spec"]
    in_zone = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [zone]}]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": f"pvc-{metadata['uid']}",
            "annotations": {"pv.kubernetes.io/provisioned-by": DRIVER},
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "storageClassName": storage_class["metadata"]["name"],
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            "csi": {"driver": DRIVER, "volumeHandle": f"vol-{metadata['uid']}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [in_zone]}},
        },
    }
