"""The cluster's API for functions: the same port as the real one, with faults before and after each call."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

from adapters.ports import DeniedError, EvictionBlockedError, Listing
from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import decoding as wire
from core.manifests.wire.api_resources import Resource
from simulator.cluster.eviction import Evictions
from simulator.cluster.list_selectors import node_of_selector, selection
from simulator.cluster.objects import PROGRAM, Key, key_of
from simulator.cluster.pod_bindings import PodBindings
from simulator.cluster.store import Change, Store
from simulator.record import Recorder

FaultHook = Callable[[str, Literal["before", "after"]], None]
"""Called with the call's name before it reaches the cluster and after it was done; may raise."""

FORCED = "forced"


class ClusterApi:
    """Implements `adapters.ports.Kubernetes` on the simulated cluster; all changes through it count as the program's."""

    def __init__(self, store: Store, evictions: Evictions, bindings: PodBindings, recorder: Recorder) -> None:
        self._store = store
        self._evictions = evictions
        self._bindings = bindings
        self._recorder = recorder
        self._hooks: list[FaultHook] = []
        self._listings: dict[Resource, Listing] = {}
        self._decoded: dict[Resource, dict[Key, Any]] = {resource: {} for resource in kinds.ALL}
        self._rejected: dict[Resource, dict[Key, str]] = {resource: {} for resource in kinds.ALL}
        self._changed: dict[Resource, dict[Key, JsonObject | None]] = {resource: {} for resource in kinds.ALL}
        store.watch(self._note)

    def on_fault_point(self, hook: FaultHook) -> None:
        """Call `hook` before and after each call."""
        self._hooks.append(hook)

    def list(self, resource: Resource, *, fields: str = "", labels: str = "") -> Listing:
        """The objects that are selected, by namespace and name. What did not change since is not decoded again."""
        with self._call(f"kube:list {resource.plural}"):
            if resource not in self._listings:
                self._listings[resource] = self._decode_changed(resource)
            if fields or labels:
                return self._selected(resource, fields, labels)
            return self._listings[resource]

    def count(self, resource: Resource) -> int | None:
        """Return the number of objects of the kind; to the cluster this is an ordinary list request."""
        with self._call(f"kube:list {resource.plural}"):
            return len(self._store.all(resource))

    def get(self, resource: Resource, name: str, namespace: str = "") -> Any:
        """One object as its wire struct. Raises NotFoundError."""
        with self._call(f"kube:get {resource.plural}"):
            return wire.from_object(resource, self._store.get(resource, name, namespace))

    def create(self, resource: Resource, body: JsonObject, namespace: str = "") -> None:
        """Create an object. Raises ConflictError if it exists."""
        with self._call(f"kube:create {resource.plural}"):
            body = copy.deepcopy(body)
            metadata = body.setdefault("metadata", {})
            if not metadata.get("name") and not metadata.get("generateName"):
                raise DeniedError(f"kube:create {resource.plural}", "name or generateName is required")
            if namespace:
                metadata["namespace"] = namespace
            self._store.create(resource, body, by=PROGRAM)

    def patch(
        self, resource: Resource, name: str, body: JsonObject, *, namespace: str = "", subresource: str = ""
    ) -> None:
        """JSON merge patch. The status is only reached through its subresource, and nothing else is there."""
        with self._call(f"kube:patch {'/'.join(filter(None, (resource.plural, subresource)))}"):
            body = _reachable(copy.deepcopy(body), subresource)
            self._store.patch(resource, name, body, namespace=namespace, by=PROGRAM)

    def delete(
        self, resource: Resource, name: str, *, namespace: str = "", uid: str = "", grace_seconds: int | None = None
    ) -> None:
        """Delete an object. A pod deleted this way bypasses its budget and counts as forced."""
        with self._call(f"kube:delete {resource.plural}"):
            cause = FORCED if resource == kinds.PODS else ""
            self._store.delete(
                resource, name, namespace=namespace, uid=uid, grace_seconds=grace_seconds, by=PROGRAM, cause=cause
            )

    def evict(self, namespace: str, name: str, *, uid: str) -> None:
        """Evict a pod through the eviction API."""
        with self._call("kube:create pods/eviction"):
            try:
                self._evictions.evict(namespace, name, uid=uid)
            except EvictionBlockedError as error:
                budget = error.detail.partition(" ")[0]
                self._recorder.emit("evictionRefused", pod=f"{namespace}/{name}", budget=budget)
                raise

    def bind(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        """Bind a pod to a node."""
        with self._call("kube:create pods/binding"):
            self._bindings.bind(namespace, name, uid=uid, node=node)

    def _call(self, call: str) -> _Hooked:
        return _Hooked(self._hooks, call)

    def _note(self, change: Change) -> None:
        self._listings.pop(change.resource, None)
        self._changed[change.resource][key_of(change.obj)] = change.new

    def _selected(self, resource: Resource, fields: str, labels: str) -> Listing:
        is_selected = selection(resource, fields, labels)
        node = node_of_selector(fields)
        objects = self._store.pods_on(node) if node else self._store.all(resource)
        keys = [key_of(obj) for obj in objects if is_selected(obj)]
        decoded, rejected = self._decoded[resource], self._rejected[resource]
        problems = tuple(("/".join(filter(None, key)), rejected[key]) for key in keys if key in rejected)
        return Listing(tuple(decoded[key] for key in keys if key in decoded), problems)

    def _decode_changed(self, resource: Resource) -> Listing:
        """Return the current list; only objects that changed since the last one are decoded."""
        decoded, rejected, changed = self._decoded[resource], self._rejected[resource], self._changed[resource]
        has_new = any(key not in decoded for key in changed)
        for key, obj in changed.items():
            if obj is None or not self._decode(resource, key, obj):
                decoded.pop(key, None)
            if obj is None:
                rejected.pop(key, None)
        if has_new:
            decoded = self._decoded[resource] = {key: decoded[key] for key in sorted(decoded)}
        changed.clear()
        problems = sorted(("/".join(filter(None, key)), why) for key, why in rejected.items())
        return Listing(tuple(decoded.values()), tuple(problems))

    def _decode(self, resource: Resource, key: Key, obj: JsonObject) -> bool:
        """Decode the object; return whether that is possible."""
        self._rejected[resource].pop(key, None)
        try:
            self._decoded[resource][key] = wire.from_object(resource, obj)
        except InvalidInputError as error:
            rest = wire.rest_of(resource, obj)
            if rest is None:
                self._rejected[resource][key] = str(error)
                return False
            self._decoded[resource][key] = rest
        return True


class _Hooked:
    """Around a call: the hooks before it, and those after it unless it raised."""

    __slots__ = ("_call", "_hooks")

    def __init__(self, hooks: list[FaultHook], call: str) -> None:
        self._hooks = hooks
        self._call = call

    def __enter__(self) -> None:
        for hook in self._hooks:
            hook(self._call, "before")

    def __exit__(self, failed: object, *_: object) -> None:
        if failed is None:
            for hook in self._hooks:
                hook(self._call, "after")


def _reachable(body: JsonObject, subresource: str) -> JsonObject:
    if subresource == "status":
        version = (body.get("metadata") or {}).get("resourceVersion")
        kept: JsonObject = {"status": body.get("status") or {}}
        return {**kept, "metadata": {"resourceVersion": version}} if version is not None else kept
    return {key: value for key, value in body.items() if key != "status"}
