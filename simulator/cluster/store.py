"""The API server's storage: whole objects, their versions, their deletion, and their watchers.

Objects are never changed in place. A change makes a new object that shares what stayed the same, so readers may keep what they
got, and compare old with new.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Final
from uuid import UUID

import msgspec

from adapters.ports import ConflictError, NotFoundError
from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from simulator.clock import VirtualClock
from simulator.cluster.defaults import defaulted
from simulator.cluster.indexed_objects import IndexedObjects
from simulator.cluster.merge_patch import merged
from simulator.cluster.objects import (
    CONTROLLER,
    annotations_of,
    is_deleting,
    is_finished,
    key_of,
    node_of,
    spec_of,
    timestamp,
    uid_of,
)

_SUFFIX_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH: Final = 5
_SERVER_FIELDS: Final = (
    "name",
    "namespace",
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
)


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One change of one object.

    Attributes:
        old: The object before, None where it was created.
        new: The object after, None where it is gone.
        by: The requester; for an object that is gone, the first to request its deletion.
        cause: Why a pod is deleted, if the record distinguishes it: eviction, forced, nodeLost.
    """

    resource: Resource
    old: JsonObject | None
    new: JsonObject | None
    by: str
    cause: str = ""

    @property
    def obj(self) -> JsonObject:
        """The object as it is now, or as it was last."""
        latest = self.new if self.new is not None else self.old
        return latest if latest is not None else {}


class Store(IndexedObjects):
    """All objects of the cluster as the API server keeps them."""

    def __init__(self, clock: VirtualClock, rng: Random) -> None:
        super().__init__()
        self.clock = clock
        self.rng = rng
        self._names: set[str] = set()
        self._deleted_by: dict[str, str] = {}
        self._watchers: dict[Resource, list[Callable[[Change], None]]] = {resource: [] for resource in kinds.ALL}
        self._version = 0

    def watch(self, callback: Callable[[Change], None], *resources: Resource) -> None:
        """Call back at once on each change of these kinds, or of all kinds if none is given."""
        for resource in resources or kinds.ALL:
            self._watchers[resource].append(callback)

    def get(self, resource: Resource, name: str, namespace: str = "") -> JsonObject:
        """The object. Raises NotFoundError."""
        obj = self.find(resource, name, namespace)
        if obj is None:
            raise NotFoundError(f"kube:get {resource.plural}", f"{resource.kind} {namespace}/{name} not found")
        return obj

    def in_namespace(self, resource: Resource, namespace: str) -> list[JsonObject]:
        """Every object of the kind in one namespace, by name."""
        return [obj for obj in self.all(resource) if obj["metadata"].get("namespace") == namespace]

    def owned(self, resource: Resource, owner: JsonObject) -> list[JsonObject]:
        """The objects of one kind that name this owner, by name."""
        return [obj for kind, obj in self.owned_by(uid_of(owner)) if kind == resource]

    def new_name(self, prefix: str) -> str:
        """Return the prefix and five random letters that it never had before, so that a recorded name means one object."""
        while True:
            name = prefix + "".join(self.rng.choices(_SUFFIX_LETTERS, k=_SUFFIX_LENGTH))
            if name not in self._names:
                self._names.add(name)
                return name

    def create(self, resource: Resource, body: JsonObject, *, by: str = CONTROLLER) -> JsonObject:
        """Create an object, with what the API server fills in. Raises ConflictError if it exists."""
        metadata = dict(body.get("metadata") or {})
        if "name" not in metadata and "generateName" in metadata:
            metadata["name"] = self.new_name(metadata["generateName"])
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
        else:
            metadata.pop("namespace", None)
        metadata.setdefault("uid", str(UUID(int=self.rng.getrandbits(128), version=4)))
        metadata.setdefault("creationTimestamp", timestamp(self.clock.now()))
        metadata["generation"] = 1
        for field in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"):
            metadata.pop(field, None)
        obj = {**body, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        key = key_of(obj)
        if self.find(resource, key[1], key[0]) is not None:
            raise ConflictError(f"kube:create {resource.plural}", f'{resource.plural} "{key[1]}" already exists')
        if resource.namespaced and resource != kinds.NAMESPACES:
            self._ensure_namespace(key[0])
        return self._write(resource, None, defaulted(resource, obj, self._default_source), by)

    def patch(
        self,
        resource: Resource,
        name: str,
        body: JsonObject,
        *,
        namespace: str = "",
        by: str = CONTROLLER,
    ) -> JsonObject:
        """Merge a patch into an object. Raises NotFoundError, and ConflictError where a resourceVersion differs."""
        old = self.get(resource, name, namespace)
        wanted = (body.get("metadata") or {}).get("resourceVersion")
        if wanted not in (None, old["metadata"]["resourceVersion"]):
            raise ConflictError(f"kube:patch {resource.plural}", f"{name}: the object has been modified")
        new: JsonObject = merged(old, _changeable(body))
        if new is old:
            return old
        if new.get("spec") is not old.get("spec"):
            generation = old["metadata"].get("generation", 1) + 1
            new = {**new, "metadata": {**new["metadata"], "generation": generation}}
        if is_deleting(new) and not new["metadata"].get("finalizers") and not _is_in_grace(new):
            self._remove(resource, new, by)
            return new
        return self._write(resource, old, new, by)

    def patch_status(self, resource: Resource, obj: JsonObject, **fields: object) -> JsonObject:
        """Set fields of the status, as a controller does."""
        namespace, name = key_of(obj)
        return self.patch(resource, name, {"status": fields}, namespace=namespace)

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_seconds: int | None = None,
        by: str = CONTROLLER,
        cause: str = "",
    ) -> None:
        """Delete an object, after a running pod's grace period and after its finalizers are removed.

        Raises:
            NotFoundError: If it does not exist.
            ConflictError: If `uid` is given and differs.
        """
        obj = self.get(resource, name, namespace)
        if uid and uid != uid_of(obj):
            raise ConflictError(f"kube:delete {resource.plural}", f"{name}: the uid in the precondition differs")
        self._deleted_by.setdefault(uid_of(obj), by)
        grace = _grace_of(obj, grace_seconds) if resource == kinds.PODS else 0
        if not grace and not obj["metadata"].get("finalizers"):
            self._remove(resource, obj, by, cause)
        else:
            self._mark_deleted(resource, obj, grace, by=by, cause=cause)

    def _mark_deleted(self, resource: Resource, obj: JsonObject, grace: int, *, by: str, cause: str) -> None:
        """Note when the object shall be gone; a second deletion may only bring that nearer."""
        before = obj["metadata"].get("deletionGracePeriodSeconds")
        if is_deleting(obj) and (before is None or before <= grace):
            return
        until = timestamp(self.clock.now() + timedelta(seconds=grace))
        marks = {"deletionTimestamp": until, "deletionGracePeriodSeconds": grace}
        self._write(resource, obj, merged(obj, {"metadata": marks}), by, cause)

    def _ensure_namespace(self, namespace: str) -> None:
        if self.find(kinds.NAMESPACES, namespace) is None:
            self.create(kinds.NAMESPACES, {"metadata": {"name": namespace}})

    def _default_source(self, resource: Resource, name: str) -> JsonObject | None:
        if name:
            return self.find(resource, name)
        return next((obj for obj in self.all(resource) if _is_default(obj)), None)

    def _write(
        self, resource: Resource, old: JsonObject | None, new: JsonObject, by: str, cause: str = ""
    ) -> JsonObject:
        self._version += 1
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": str(self._version)}}
        self._put(resource, old, new)
        self._notify(Change(resource=resource, old=old, new=new, by=by, cause=cause))
        return new

    def _remove(self, resource: Resource, obj: JsonObject, by: str, cause: str = "") -> None:
        self._version += 1
        self._take_out(resource, key_of(obj))
        first = self._deleted_by.pop(uid_of(obj), by)
        self._notify(Change(resource=resource, old=obj, new=None, by=first, cause=cause))

    def _notify(self, change: Change) -> None:
        for callback in self._watchers[change.resource]:
            callback(change)


def _is_default(obj: JsonObject) -> bool:
    marked = annotations_of(obj).get("storageclass.kubernetes.io/is-default-class") == "true"
    return marked or bool(obj.get("globalDefault"))


def _is_in_grace(obj: JsonObject) -> bool:
    return bool(obj["metadata"].get("deletionGracePeriodSeconds"))


def _changeable(patch: JsonObject) -> JsonObject:
    """The patch without what only the API server may change."""
    if "metadata" not in patch:
        return patch
    metadata = {key: value for key, value in patch["metadata"].items() if key not in _SERVER_FIELDS}
    return {**patch, "metadata": metadata}


def _grace_of(pod: JsonObject, asked: int | None) -> int:
    """A pod that never ran or has finished goes at once, as in the API server."""
    if not node_of(pod) or is_finished(pod):
        return 0
    default = spec_of(pod).get("terminationGracePeriodSeconds", 30)
    return int(default if asked is None else asked)
