"""Deployments: a ReplicaSet for each template, exchanged step by step (RollingUpdate) or at once (Recreate)."""

from __future__ import annotations

from typing import Final

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.int_or_percent import amount
from simulator.cluster.objects import (
    Key,
    annotations_of,
    controller_of,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    owner_reference,
    status_of,
)
from simulator.cluster.store import Change, Store
from simulator.cluster.work_queue import WorkQueue
from simulator.cluster.workloads.ownership import template_hash, wake_for

_HASH_LABEL: Final = "pod-template-hash"
_REVISION: Final = "deployment.kubernetes.io/revision"


class Deployments:
    """Rolls the pods of each Deployment to its present template within maxSurge and maxUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = WorkQueue(store.clock, self._reconcile)
        wake_for(store, self._queue, kinds.DEPLOYMENTS, kinds.REPLICA_SETS)
        store.watch(self._pod_gone, kinds.PODS)

    def _pod_gone(self, change: Change) -> None:
        """The last old pod's end lets Recreate go on, and an old ReplicaSet be forgotten."""
        reference = controller_of(change.obj) if change.new is None else None
        if reference is None or reference["kind"] != kinds.REPLICA_SETS.kind:
            return
        replica_set = self._store.find(kinds.REPLICA_SETS, reference["name"], namespace_of(change.obj))
        owner = controller_of(replica_set) if replica_set else None
        if owner is not None:
            self._queue.add((namespace_of(change.obj), owner["name"]))

    def _reconcile(self, key: Key) -> None:
        deployment = self._store.find(kinds.DEPLOYMENTS, key[1], key[0])
        if deployment is None or is_deleting(deployment):
            return
        current, old = self._replica_sets(deployment)
        if not deployment["spec"].get("paused"):
            self._roll(deployment, current, old)
        elif current is not None and not any(_size(o) for o in old):
            self._scale(current, deployment["spec"]["replicas"])
        self._forget_history(deployment)
        self._report(deployment)

    def _roll(self, deployment: JsonObject, current: JsonObject | None, old: list[JsonObject]) -> None:
        if current is None:
            current = self._create(deployment)
        old = [o for o in old if _size(o) or self._store.owned(kinds.PODS, o)]
        replicas = deployment["spec"]["replicas"]
        if deployment["spec"]["strategy"]["type"] == "Recreate":
            self._recreate(replicas, current, old)
            return
        rolling = deployment["spec"]["strategy"]["rollingUpdate"]
        surge = amount(rolling["maxSurge"], replicas, round_up=True)
        unavailable = amount(rolling["maxUnavailable"], replicas, round_up=False)
        if surge == 0 and unavailable == 0:
            unavailable = 1
        current = self._grow(replicas, surge, current, old)
        self._shrink(replicas - unavailable, current, old)

    def _recreate(self, replicas: int, current: JsonObject, old: list[JsonObject]) -> None:
        for replica_set in old:
            self._scale(replica_set, 0)
        if not any(self._store.owned(kinds.PODS, replica_set) for replica_set in old):
            self._scale(current, replicas)

    def _grow(self, replicas: int, surge: int, current: JsonObject, old: list[JsonObject]) -> JsonObject:
        """Raise the new ReplicaSet as far as the surge allows; at its end, or above it, set it to its size."""
        room = replicas + surge - _size(current) - sum(_size(o) for o in old)
        if _size(current) > replicas:
            return self._scale(current, replicas)
        return self._scale(current, min(replicas, _size(current) + max(0, room)))

    def _shrink(self, available_min: int, current: JsonObject, old: list[JsonObject]) -> None:
        """Remove old pods: first unavailable ones, then as many as maxUnavailable allows."""
        pending_of_new = _size(current) - _available(current)
        surplus = _size(current) + sum(_size(o) for o in old) - available_min - pending_of_new
        sizes = {name_of(o): _size(o) for o in old}
        for replica_set in old:
            gone = max(0, min(surplus, _size(replica_set) - _available(replica_set)))
            sizes[name_of(replica_set)] -= gone
            surplus -= gone
        spare = _available(current) + sum(min(sizes[name_of(o)], _available(o)) for o in old) - available_min
        for replica_set in old:
            gone = max(0, min(spare, sizes[name_of(replica_set)]))
            sizes[name_of(replica_set)] -= gone
            spare -= gone
            self._scale(replica_set, sizes[name_of(replica_set)])

    def _replica_sets(self, deployment: JsonObject) -> tuple[JsonObject | None, list[JsonObject]]:
        """The ReplicaSet of the present template and the others, oldest first."""
        owned = sorted(self._store.owned(kinds.REPLICA_SETS, deployment), key=_revision)
        current = next((o for o in owned if _is_of_template(o, deployment)), None)
        return current, [o for o in owned if o is not current]

    def _create(self, deployment: JsonObject) -> JsonObject:
        template = deployment["spec"]["template"]
        given = template.get("metadata") or {}
        hashed = {**(given.get("labels") or {}), _HASH_LABEL: template_hash(template)}
        selector = deployment["spec"].get("selector") or {}
        matched = {**(selector.get("matchLabels") or {}), _HASH_LABEL: hashed[_HASH_LABEL]}
        revisions = [_revision(o) for o in self._store.owned(kinds.REPLICA_SETS, deployment)]
        namespace, name = key_of(deployment)
        body = {
            "metadata": {
                "name": f"{name}-{hashed[_HASH_LABEL]}",
                "namespace": namespace,
                "labels": hashed,
                "annotations": {_REVISION: str(max(revisions, default=0) + 1)},
                "ownerReferences": [owner_reference(kinds.DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": 0,
                "selector": {**selector, "matchLabels": matched},
                "template": {**template, "metadata": {**given, "labels": hashed}},
            },
        }
        return self._store.create(kinds.REPLICA_SETS, body)

    def _scale(self, replica_set: JsonObject, replicas: int) -> JsonObject:
        namespace, name = key_of(replica_set)
        return self._store.patch(kinds.REPLICA_SETS, name, {"spec": {"replicas": replicas}}, namespace=namespace)

    def _forget_history(self, deployment: JsonObject) -> None:
        _, old = self._replica_sets(deployment)
        idle = [o for o in old if not _size(o) and not self._store.owned(kinds.PODS, o)]
        for replica_set in idle[: max(0, len(idle) - deployment["spec"]["revisionHistoryLimit"])]:
            namespace, name = key_of(replica_set)
            self._store.delete(kinds.REPLICA_SETS, name, namespace=namespace)

    def _report(self, deployment: JsonObject) -> None:
        current, old = self._replica_sets(deployment)
        every = [*old, current] if current else old
        self._store.patch_status(
            kinds.DEPLOYMENTS,
            deployment,
            replicas=sum(status_of(o).get("replicas", 0) for o in every),
            updatedReplicas=status_of(current).get("replicas", 0) if current else 0,
            readyReplicas=sum(_available(o) for o in every),
            availableReplicas=sum(_available(o) for o in every),
            observedGeneration=deployment["metadata"]["generation"],
        )


def _revision(replica_set: JsonObject) -> int:
    return int(annotations_of(replica_set).get(_REVISION, 0))


def _is_of_template(replica_set: JsonObject, deployment: JsonObject) -> bool:
    """Whether the templates are equal but for the hash that the ReplicaSet's carries."""
    wanted, own = deployment["spec"]["template"], replica_set["spec"]["template"]
    given, has = wanted.get("metadata") or {}, own.get("metadata") or {}
    stripped = {key: value for key, value in (has.get("labels") or {}).items() if key != _HASH_LABEL}
    return own.get("spec") == wanted.get("spec") and {**has, "labels": stripped} == {"labels": {}, **given}


def _size(replica_set: JsonObject) -> int:
    return int(replica_set["spec"]["replicas"])


def _available(replica_set: JsonObject) -> int:
    return int(status_of(replica_set).get("availableReplicas", 0))
