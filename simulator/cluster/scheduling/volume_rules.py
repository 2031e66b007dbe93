"""A pod's volumes restrict its node: their zones, topologies of new volumes, and the node's attachment limit."""

from __future__ import annotations

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.objects import full_name, is_finished, name_of, spec_of
from simulator.cluster.scheduling.cluster_state import NodeRoom
from simulator.cluster.store import Store
from simulator.cluster.volumes.claims import (
    admits_node,
    can_provision,
    claim_names,
    claims_of,
    class_of,
    is_bound,
    suitable_volumes,
    topologies_admit,
    volume_of,
    waits_for_consumer,
)


class VolumeRules:
    """The rules of one pod's claims. `problem` closes every node: a claim is missing or not ready to be used."""

    def __init__(self, store: Store, pod: JsonObject) -> None:
        self._store = store
        self._bound: list[JsonObject] = []
        self._open: list[JsonObject] = []
        self.problem = ""
        for name, claim in zip(claim_names(pod), claims_of(store, pod), strict=True):
            self._sort(name, claim)

    def why_not(self, room: NodeRoom) -> str:
        """Why the node cannot serve the pod's volumes, empty if it can."""
        if not all(admits_node(volume, room.node) for volume in self._bound):
            return "node(s) had volume node affinity conflict"
        if not all(self._can_open(claim, room.node) for claim in self._open):
            return "node(s) didn't find available persistent volumes to bind"
        return self._over_limit(room)

    def _sort(self, name: str, claim: JsonObject | None) -> None:
        if claim is None:
            self.problem = f'persistentvolumeclaim "{name}" not found'
        elif is_bound(claim):
            volume = volume_of(self._store, claim)
            if volume is None:
                self.problem = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume'
            else:
                self._bound.append(volume)
        elif waits_for_consumer(class_of(self._store, claim)):
            self._open.append(claim)
        else:
            self.problem = "pod has unbound immediate PersistentVolumeClaims"

    def _can_open(self, claim: JsonObject, node: JsonObject) -> bool:
        if any(admits_node(volume, node) for volume in suitable_volumes(self._store, claim)):
            return True
        storage_class = class_of(self._store, claim)
        return storage_class is not None and can_provision(storage_class) and topologies_admit(storage_class, node)

    def _over_limit(self, room: NodeRoom) -> str:
        csi_node = self._store.find(kinds.CSI_NODES, room.name)
        drivers = (spec_of(csi_node).get("drivers") or ()) if csi_node else ()
        for driver in drivers:
            count = (driver.get("allocatable") or {}).get("count")
            if count is None:
                continue
            wanted = self._volumes_of(driver["name"])
            if wanted and len(wanted | self._on_node(room.name, driver["name"])) > count:
                return "node(s) exceed max volume count"
        return ""

    def _volumes_of(self, driver: str) -> set[str]:
        """The pod's volumes of a driver: those that exist, and those that would be made for its claims."""
        made = {name_of(volume) for volume in self._bound if _driver(volume) == driver}
        to_make = {
            full_name(claim)
            for claim in self._open
            if (class_of(self._store, claim) or {}).get("provisioner") == driver
        }
        return made | to_make

    def _on_node(self, node: str, driver: str) -> set[str]:
        volumes: set[str] = set()
        for pod in self._store.pods_on(node):
            if pod["spec"].get("volumes") and not is_finished(pod):
                bound = [volume_of(self._store, claim) for claim in claims_of(self._store, pod) if claim is not None]
                volumes |= {name_of(volume) for volume in bound if volume is not None and _driver(volume) == driver}
        return volumes


def _driver(volume: JsonObject) -> str:
    return str((spec_of(volume).get("csi") or {}).get("driver", ""))
