"""NoExecute taints: pods that do not tolerate them are deleted; those with tolerationSeconds are deleted after that time."""

from __future__ import annotations

from datetime import datetime, timedelta

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.node_fit import tolerates
from simulator.cluster.objects import Key, is_active, key_of, name_of, node_of, spec_of, uid_of
from simulator.cluster.store import Change, Store
from simulator.cluster.work_queue import WorkQueue


class TaintEviction:
    """The controller that deletes pods which do not tolerate a NoExecute taint of their node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = WorkQueue(store.clock, self._reconcile)
        self._since: dict[str, datetime] = {}
        store.watch(self._node_changed, kinds.NODES)
        store.watch(self._pod_changed, kinds.PODS)

    def _node_changed(self, change: Change) -> None:
        before = spec_of(change.old).get("taints") if change.old else None
        if change.new is not None and spec_of(change.new).get("taints") != before:
            self._queue.add(("", name_of(change.new)))

    def _pod_changed(self, change: Change) -> None:
        if change.new is None:
            self._since.pop(uid_of(change.obj), None)
        elif node_of(change.new) and (change.old is None or not node_of(change.old)):
            node = self._store.find(kinds.NODES, node_of(change.new))
            if node is not None and _driving(node):
                self._queue.add(("", name_of(node)))

    def _reconcile(self, key: Key) -> None:
        node = self._store.find(kinds.NODES, key[1])
        if node is None:
            return
        taints = _driving(node)
        now = self._store.clock.now()
        for pod in self._store.pods_on(key[1]):
            patience = _patience(pod, taints)
            if not taints or patience is None:
                self._since.pop(uid_of(pod), None)
                continue
            due = self._since.setdefault(uid_of(pod), now) + patience
            if now < due:
                self._store.clock.at(due, lambda: self._queue.add(key))
            elif is_active(pod):
                namespace, name = key_of(pod)
                self._store.delete(kinds.PODS, name, namespace=namespace)


def _driving(node: JsonObject) -> list[JsonObject]:
    return [taint for taint in spec_of(node).get("taints") or () if taint["effect"] == "NoExecute"]


def _patience(pod: JsonObject, taints: list[JsonObject]) -> timedelta | None:
    """How long the pod stays under these taints, None for no limit."""
    shortest: timedelta | None = None
    for taint in taints:
        matching = [t for t in pod["spec"].get("tolerations") or () if tolerates(t, taint)]
        if not matching:
            return timedelta(0)
        limits = [timedelta(seconds=max(0, s)) for t in matching if (s := t.get("tolerationSeconds")) is not None]
        if limits:
            shortest = min([*limits, shortest] if shortest is not None else limits)
    return shortest
