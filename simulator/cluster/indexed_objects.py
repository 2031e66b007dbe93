"""All objects of the cluster by kind, namespace and name, with indexes of pods by node and of objects by owner."""

from __future__ import annotations

from bisect import bisect_left, insort

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from simulator.cluster.objects import Key, key_of, node_of, uid_of


class IndexedObjects:
    """Objects by key. Each is replaced whole, and every answer is sorted."""

    def __init__(self) -> None:
        self._objects: dict[Resource, dict[Key, JsonObject]] = {resource: {} for resource in kinds.ALL}
        self._keys: dict[Resource, list[Key]] = {resource: [] for resource in kinds.ALL}
        self._sorted: dict[Resource, tuple[JsonObject, ...]] = {}
        self._by_node: dict[str, dict[Key, JsonObject]] = {}
        self._by_owner: dict[str, dict[tuple[Resource, Key], None]] = {}
        self._uids: set[str] = set()

    def find(self, resource: Resource, name: str, namespace: str = "") -> JsonObject | None:
        """The object, None if there is none."""
        return self._objects[resource].get((namespace, name))

    def all(self, resource: Resource) -> tuple[JsonObject, ...]:
        """Every object of the kind, by namespace and name."""
        if resource not in self._sorted:
            objects = self._objects[resource]
            self._sorted[resource] = tuple(map(objects.__getitem__, self._keys[resource]))
        return self._sorted[resource]

    def pods_on(self, node: str) -> list[JsonObject]:
        """The pods that are bound to the node, by namespace and name."""
        pods = self._by_node.get(node, {})
        return [pods[key] for key in sorted(pods)]

    def owned_by(self, uid: str) -> list[tuple[Resource, JsonObject]]:
        """The objects that name this owner, by kind, namespace and name."""
        return [(resource, self._objects[resource][key]) for resource, key in sorted(self._by_owner.get(uid, ()))]

    def has_uid(self, uid: str) -> bool:
        """Whether there is an object with this uid."""
        return uid in self._uids

    def _put(self, resource: Resource, old: JsonObject | None, new: JsonObject) -> None:
        """Add an object, or replace `old`."""
        key = key_of(new)
        self._objects[resource][key] = new
        self._index(resource, key, old, new)

    def _take_out(self, resource: Resource, key: Key) -> None:
        """Remove an object, which must exist."""
        self._index(resource, key, self._objects[resource].pop(key), None)

    def _index(self, resource: Resource, key: Key, old: JsonObject | None, new: JsonObject | None) -> None:
        self._sorted.pop(resource, None)
        if old is None and new is not None:
            self._uids.add(uid_of(new))
            insort(self._keys[resource], key)
        elif new is None and old is not None:
            self._uids.discard(uid_of(old))
            keys = self._keys[resource]
            del keys[bisect_left(keys, key)]
        if resource == kinds.PODS:
            if old is not None and (node := node_of(old)):
                self._by_node[node].pop(key)
            if new is not None and (node := node_of(new)):
                self._by_node.setdefault(node, {})[key] = new
        before = old["metadata"].get("ownerReferences") if old else None
        after = new["metadata"].get("ownerReferences") if new else None
        if before is not after:
            for reference in before or ():
                self._by_owner[reference["uid"]].pop((resource, key), None)
            for reference in after or ():
                self._by_owner.setdefault(reference["uid"], {})[(resource, key)] = None
