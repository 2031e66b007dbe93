"""Background garbage collection: an object's dependents are deleted after it, and so are the objects in a Namespace."""

from __future__ import annotations

from core.manifests.wire import api_resources as kinds
from simulator.cluster.objects import is_deleting, key_of, name_of, uid_of
from simulator.cluster.store import Change, Store
from simulator.cluster.work_queue import CONTROLLER_DELAY


class GarbageCollector:
    """Deletes objects whose owners are all gone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.watch(self._changed)

    def _changed(self, change: Change) -> None:
        if change.new is not None:
            return
        uid = uid_of(change.obj)
        if self._store.owned_by(uid):
            self._store.clock.after(CONTROLLER_DELAY, lambda: self._collect(uid))
        if change.resource == kinds.NAMESPACES:
            name = name_of(change.obj)
            self._store.clock.after(CONTROLLER_DELAY, lambda: self._empty(name))

    def _collect(self, uid: str) -> None:
        for resource, obj in self._store.owned_by(uid):
            others = [ref["uid"] for ref in obj["metadata"]["ownerReferences"] if ref["uid"] != uid]
            if not is_deleting(obj) and not any(self._store.has_uid(other) for other in others):
                namespace, name = key_of(obj)
                self._store.delete(resource, name, namespace=namespace)

    def _empty(self, namespace: str) -> None:
        if self._store.find(kinds.NAMESPACES, namespace) is not None:
            return
        for resource in kinds.ALL:
            for obj in self._store.in_namespace(resource, namespace) if resource.namespaced else ():
                present = self._store.find(resource, name_of(obj), namespace)
                if present is not None and not is_deleting(present):
                    self._store.delete(resource, name_of(obj), namespace=namespace)
