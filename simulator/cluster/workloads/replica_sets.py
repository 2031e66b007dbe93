"""ReplicaSets and ReplicationControllers: keep their number of pods."""

from __future__ import annotations

from typing import Final

from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from simulator.cluster.objects import (
    Key,
    annotations_of,
    condition_of,
    is_active,
    is_deleting,
    is_ready,
    key_of,
    node_of,
    phase_of,
)
from simulator.cluster.store import Store
from simulator.cluster.work_queue import WorkQueue
from simulator.cluster.workloads.ownership import create_pod, wake_for

_PHASE_RANK: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSets:
    """Keeps the number of active pods of each ReplicaSet, or ReplicationController, at its replicas."""

    def __init__(self, store: Store, resource: Resource) -> None:
        self._store = store
        self._resource = resource
        wake_for(store, WorkQueue(store.clock, self._reconcile), resource, kinds.PODS)

    def _reconcile(self, key: Key) -> None:
        replica_set = self._store.find(self._resource, key[1], key[0])
        if replica_set is None:
            return
        pods = [pod for pod in self._store.owned(kinds.PODS, replica_set) if is_active(pod)]
        if not is_deleting(replica_set):
            missing = replica_set["spec"]["replicas"] - len(pods)
            pods += [create_pod(self._store, self._resource, replica_set) for _ in range(missing)]
            if missing < 0:
                self._delete(pods, -missing)
        self._report(replica_set)

    def _delete(self, pods: list[JsonObject], surplus: int) -> None:
        for pod in sorted(pods, key=_deletion_rank)[:surplus]:
            namespace, name = key_of(pod)
            self._store.delete(kinds.PODS, name, namespace=namespace)

    def _report(self, replica_set: JsonObject) -> None:
        pods = [pod for pod in self._store.owned(kinds.PODS, replica_set) if is_active(pod)]
        ready = sum(is_ready(pod) for pod in pods)
        self._store.patch_status(
            self._resource,
            replica_set,
            replicas=len(pods),
            readyReplicas=ready,
            availableReplicas=ready,
            observedGeneration=replica_set["metadata"]["generation"],
        )


def _deletion_rank(pod: JsonObject) -> tuple[object, ...]:
    """Rank pods for deletion: unbound first, then pending, not ready, cheap to delete, ready for the shortest time, newest."""
    cost = annotations_of(pod).get(labels.POD_DELETION_COST, "0")
    ready_since = condition_of(pod, "Ready").get("lastTransitionTime", "")
    return (
        bool(node_of(pod)),
        _PHASE_RANK.get(phase_of(pod), 1),
        is_ready(pod),
        int(cost) if cost.lstrip("-").isdigit() else 0,
        _Newest(ready_since),
        _Newest(pod["metadata"]["creationTimestamp"]),
        pod["metadata"]["name"],
    )


class _Newest(str):
    """A timestamp that sorts before older ones."""

    __slots__ = ()

    def __lt__(self, other: str) -> bool:
        return str.__gt__(self, other)
