"""The API server's storage: whole objects, their versions, their deletion, and their watchers.

Objects are never changed in place. A change makes a new object that shares what stayed the same, so readers may keep what they
got, and compare old with new.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

import msgspec

from adapters.ports import ConflictError, DeniedError, NotFoundError, TransientError
from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from simulator.clock import VirtualClock
from simulator.cluster.definitions import stored

# Fills in what the API server and its admission plugins do when an object is created.


Lookup = Callable[[Resource, str], JsonObject | None]
"""Finds a cluster-wide object by name; without a name the one that is marked as the default."""

NODE_TROUBLE: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
TROUBLE_TOLERATED_SECONDS: Final = 300
"""The default time for which a pod stays on a node that is not ready (admission, DefaultTolerationSeconds)."""

_ROLLING: Final = {"type": "RollingUpdate"}
_SPEC_DEFAULTS: Final[Mapping[Resource, Mapping[str, Any]]] = {
    resources.DEPLOYMENTS: {"replicas": 1, "revisionHistoryLimit": 10},
    resources.REPLICA_SETS: {"replicas": 1},
    resources.REPLICATION_CONTROLLERS: {"replicas": 1},
    resources.STATEFUL_SETS: {"replicas": 1, "podManagementPolicy": "OrderedReady", "updateStrategy": _ROLLING},
    resources.DAEMON_SETS: {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}},
    resources.JOBS: {"backoffLimit": 6, "suspend": False, "completionMode": "NonIndexed"},
    resources.CRON_JOBS: {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    resources.PERSISTENT_VOLUME_CLAIMS: {"volumeMode": "Filesystem"},
    resources.PERSISTENT_VOLUMES: {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
}
_WITH_STATUS: Final = (resources.NODES,)
"""The kinds whose status a creator may give; all others begin without one."""

_EMPTY_STATUS: Final[Mapping[Resource, JsonObject]] = {
    resources.PODS: {"phase": "Pending"},
    resources.NAMESPACES: {"phase": "Active"},
    resources.PERSISTENT_VOLUMES: {"phase": "Available"},
    resources.PERSISTENT_VOLUME_CLAIMS: {"phase": "Pending"},
}


def defaulted(resource: Resource, obj: JsonObject, lookup: Lookup) -> JsonObject:
    """The object as the API server would keep it."""
    obj = dict(obj)
    if resource not in _WITH_STATUS:
        obj.pop("status", None)
    if resource in _EMPTY_STATUS:
        obj["status"] = dict(_EMPTY_STATUS[resource])
    if resource in _SPEC_DEFAULTS:
        obj["spec"] = {**_SPEC_DEFAULTS[resource], **_given(obj.get("spec"))}
    shape = _SHAPES.get(resource)
    return shape(obj, lookup) if shape else obj


def _given(mapping: JsonObject | None) -> JsonObject:
    """Without nulls, which count as absent."""
    return {key: value for key, value in (mapping or {}).items() if value is not None}


def _pod(obj: JsonObject, lookup: Lookup) -> JsonObject:
    spec = {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "schedulerName": "default-scheduler",
        **_given(obj.get("spec")),
    }
    for field in ("containers", "initContainers"):
        if spec.get(field):
            spec[field] = [_container(container) for container in spec[field]]
    spec["tolerations"] = _with_default_tolerations(spec.get("tolerations") or [])
    if "priority" not in spec:
        priority_class = lookup(resources.PRIORITY_CLASSES, spec.get("priorityClassName", ""))
        spec["priority"] = (
            int(priority_class.get("value", 0))
            if priority_class
            else _SYSTEM_PRIORITIES.get(spec.get("priorityClassName"), 0)
        )
    return {**obj, "spec": spec}


_SYSTEM_PRIORITIES: Final[Mapping[Any, int]] = {
    "system-cluster-critical": 2_000_000_000,
    "system-node-critical": 2_000_001_000,
}


def _container(container: JsonObject) -> JsonObject:
    """A container's limits become its requests where no request is given."""
    written = container.get("resources") or {}
    limits = written.get("limits") or {}
    if not limits:
        return container
    return {**container, "resources": {**written, "requests": {**limits, **(written.get("requests") or {})}}}


def _with_default_tolerations(tolerations: list[JsonObject]) -> list[JsonObject]:
    added = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TROUBLE_TOLERATED_SECONDS}
        for key in NODE_TROUBLE
        if not any(t.get("key") in (None, "", key) and t.get("effect") in (None, "", "NoExecute") for t in tolerations)
    ]
    return [*tolerations, *added]


def _deployment(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    strategy = _given(obj["spec"].get("strategy"))
    if strategy.get("type", "RollingUpdate") == "RollingUpdate":
        rolling = {"maxSurge": "25%", "maxUnavailable": "25%", **_given(strategy.get("rollingUpdate"))}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    return {**obj, "spec": {**obj["spec"], "strategy": strategy}}


def _replication_controller(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    selector = obj["spec"].get("selector") or obj["spec"]["template"].get("metadata", {}).get("labels", {})
    return {**obj, "spec": {**obj["spec"], "selector": selector}}


def _job(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    spec = obj["spec"]
    if "parallelism" not in spec:
        spec = {"completions": 1, **spec, "parallelism": 1}
    return {**obj, "spec": spec}


def _storage_class(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    return {"volumeBindingMode": "Immediate", "reclaimPolicy": "Delete", **_given(obj)}


def _claim(obj: JsonObject, lookup: Lookup) -> JsonObject:
    if "storageClassName" in obj["spec"]:
        return obj
    default = lookup(resources.STORAGE_CLASSES, "")
    return {**obj, "spec": {**obj["spec"], "storageClassName": default["metadata"]["name"]}} if default else obj


def _namespace(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    metadata = obj["metadata"]
    name_label = {"kubernetes.io/metadata.name": metadata["name"]}
    return {**obj, "metadata": {**metadata, "labels": {**(metadata.get("labels") or {}), **name_label}}}


def _node(obj: JsonObject, _lookup: Lookup) -> JsonObject:
    metadata = obj["metadata"]
    hostname_label = {"kubernetes.io/hostname": metadata["name"]}
    return {**obj, "metadata": {**metadata, "labels": {**hostname_label, **(metadata.get("labels") or {})}}}


_SHAPES: Final[Mapping[Resource, Callable[[JsonObject, Lookup], JsonObject]]] = {
    resources.PODS: _pod,
    resources.DEPLOYMENTS: _deployment,
    resources.REPLICATION_CONTROLLERS: _replication_controller,
    resources.JOBS: _job,
    resources.STORAGE_CLASSES: _storage_class,
    resources.PERSISTENT_VOLUME_CLAIMS: _claim,
    resources.NAMESPACES: _namespace,
    resources.NODES: _node,
}


# JSON merge patch (RFC 7386) without changing the patched object.


def merged(target: Any, patch: Any) -> Any:
    """Return the target with the patch applied. Unchanged parts are shared; without a change it is the target itself."""
    if not isinstance(patch, dict):
        return target if target == patch else patch
    before = target if isinstance(target, dict) else {}
    after = dict(before)
    changed = before is not target
    for key, value in patch.items():
        if value is None:
            changed |= after.pop(key, None) is not None
            continue
        inner = merged(before.get(key), value)
        changed |= key not in before or inner is not before[key]
        after[key] = inner
    return after if changed else target


def difference(before: Any, after: Any) -> Any:
    """The merge patch that turns one JSON object into another."""
    patch: dict[str, Any] = dict.fromkeys(key for key in before if key not in after)
    for key, value in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            if inner := difference(old, value):
                patch[key] = inner
        elif key not in before or old != value:
            patch[key] = value
    return patch


# Reading whole Kubernetes objects, as plain JSON: names, owners, conditions, times.


Key = tuple[str, str]
"""Namespace and name."""

PROGRAM: Final = "program"
USER: Final = "user"
CONTROLLER: Final = "controller"

RUN_SECONDS: Final = "simulate.fleetwright.dev/run-seconds"
"""Annotation of pods: they finish this many seconds after they started."""

FINISHED: Final = ("Succeeded", "Failed")


def timestamp(moment: datetime) -> str:
    """Return a time as the API server writes it: RFC 3339 in UTC, whole seconds."""
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def moment_of(text: str) -> datetime:
    """Parse a time that `timestamp` wrote."""
    return datetime.fromisoformat(text).astimezone(UTC)


def key_of(obj: JsonObject) -> Key:
    """Namespace and name of an object; the namespace is empty for those of the whole cluster."""
    metadata = obj["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def name_of(obj: JsonObject) -> str:
    """The object's name."""
    return str(obj["metadata"]["name"])


def namespace_of(obj: JsonObject) -> str:
    """The object's namespace, empty for those of the whole cluster."""
    return str(obj["metadata"].get("namespace", ""))


def uid_of(obj: JsonObject) -> str:
    """The object's uid."""
    return str(obj["metadata"]["uid"])


def full_name(obj: JsonObject) -> str:
    """`namespace/name`."""
    return "/".join(part for part in key_of(obj) if part)


def labels_of(obj: JsonObject) -> Mapping[str, str]:
    """The object's labels."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: JsonObject) -> Mapping[str, str]:
    """The object's annotations."""
    return obj["metadata"].get("annotations") or {}


def spec_of(obj: JsonObject) -> JsonObject:
    """The object's spec, empty where it has none."""
    return obj.get("spec") or {}


def status_of(obj: JsonObject) -> JsonObject:
    """The object's status, empty where it has none."""
    return obj.get("status") or {}


def condition_of(obj: JsonObject, kind: str) -> JsonObject:
    """The condition of that type, empty where there is none."""
    return next((c for c in status_of(obj).get("conditions") or () if c["type"] == kind), {})


def with_condition(obj: JsonObject, kind: str, status: str, now: datetime, **fields: str) -> list[JsonObject]:
    """The object's conditions with one of them set; the transition time moves only where the status does."""
    before = condition_of(obj, kind)
    since = timestamp(now)
    if before.get("status") == status:
        since = before.get("lastTransitionTime", since)
    others = [c for c in status_of(obj).get("conditions") or () if c["type"] != kind]
    return [*others, {"type": kind, "status": status, "lastTransitionTime": since, **fields}]


def is_deleting(obj: JsonObject) -> bool:
    """Return whether deletion was requested."""
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj: JsonObject) -> JsonObject | None:
    """The owner reference of the controller, None for an object without one."""
    return next((ref for ref in obj["metadata"].get("ownerReferences") or () if ref.get("controller")), None)


def owner_reference(resource: Resource, owner: JsonObject) -> JsonObject:
    """Return the owner reference of an object that `owner` controls."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def node_of(pod: JsonObject) -> str:
    """The name of the node that the pod is bound to, empty for none."""
    return str(pod["spec"].get("nodeName") or "")


def phase_of(pod: JsonObject) -> str:
    """The pod's phase."""
    return str(status_of(pod).get("phase", "Pending"))


def is_finished(pod: JsonObject) -> bool:
    """Whether the pod has succeeded or failed."""
    return phase_of(pod) in FINISHED


def is_active(pod: JsonObject) -> bool:
    """Return whether a controller counts the pod as a replica: neither finished nor being deleted."""
    return not is_finished(pod) and not is_deleting(pod)


def is_ready(obj: JsonObject) -> bool:
    """Whether the condition Ready of a pod or node is true."""
    return condition_of(obj, "Ready").get("status") == "True"


# All objects of the cluster by kind, namespace and name, with indexes of pods by node and of objects by owner.


class IndexedObjects:
    """Objects by key. Each is replaced whole, and every answer is sorted."""

    def __init__(self) -> None:
        self._objects: dict[Resource, dict[Key, JsonObject]] = {resource: {} for resource in resources.ALL}
        self._keys: dict[Resource, list[Key]] = {resource: [] for resource in resources.ALL}
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
        if resource == resources.PODS:
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


class AdmissionError(TransientError):
    """A webhook failed, or has not answered yet.

    Attributes:
        wait: When to ask again.
    """

    def __init__(self, call: str, detail: str, wait: timedelta) -> None:
        super().__init__(call, detail)
        self.wait = wait


Admission = Callable[[Resource, str, JsonObject, str], JsonObject]
"""Admits an object: kind, verb, object, who asks; returns what is stored, or raises AdmissionError."""


class Store(IndexedObjects):
    """All objects of the cluster as the API server keeps them.

    Attributes:
        version: The `resourceVersion` of the last change.
    """

    def __init__(self, clock: VirtualClock, rng: Random) -> None:
        super().__init__()
        self.clock = clock
        self.rng = rng
        self._names: set[str] = set()
        self._deleted_by: dict[str, str] = {}
        self._watchers: dict[Resource, list[Callable[[Change], None]]] = {resource: [] for resource in resources.ALL}
        self.version = 0
        self._admissions: list[Admission] = []
        self._history: list[tuple[datetime, Resource, Key, JsonObject | None]] | None = None
        self.is_restoring = False

    def admit(self, admission: Admission) -> Callable[[], None]:
        """Ask `admission` about each object from now on; returns what ends that."""
        self._admissions.append(admission)
        return lambda: self._admissions.remove(admission)

    def keep_history(self) -> None:
        """Keep what every object was, for `restore`."""
        self._history = self._history or []

    def restore(self, moment: datetime) -> list[JsonObject]:
        """Let every object be as it was at a moment, not before `keep_history`; returns the Nodes that are back."""
        before: dict[tuple[Resource, Key], JsonObject | None] = {}
        for at, resource, key, obj in reversed(self._history or ()):
            if at <= moment:
                break
            before[resource, key] = obj
        self.is_restoring = True
        try:
            for (resource, key), obj in sorted(before.items(), key=lambda entry: entry[0]):
                present = self.find(resource, key[1], key[0])
                if obj is not None and obj is not present:
                    self._write(resource, present, obj, CONTROLLER)
                elif obj is None and present is not None:
                    self._remove(resource, present, CONTROLLER)
        finally:
            self.is_restoring = False
        return [obj for (resource, _), obj in before.items() if obj is not None and resource == resources.NODES]

    def _managed(self, obj: JsonObject, manager: str) -> JsonObject:
        """Name who wrote an object in its managedFields; without fieldsV1, which nothing reads."""
        if not manager:
            return obj
        others = [entry for entry in obj["metadata"].get("managedFields") or () if entry["manager"] != manager]
        manager_entry = {"manager": manager, "operation": "Update", "time": timestamp(self.clock.now())}
        return {**obj, "metadata": {**obj["metadata"], "managedFields": [*others, manager_entry]}}

    def _admitted(self, resource: Resource, verb: str, obj: JsonObject, by: str) -> JsonObject:
        for admission in tuple(self._admissions):
            obj = admission(resource, verb, obj, by)
        return obj

    def watch(self, callback: Callable[[Change], None], *watched: Resource) -> None:
        """Call back at once on each change of these kinds, or of all kinds if none is given."""
        for resource in watched or resources.ALL:
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

    def create(self, resource: Resource, body: JsonObject, *, by: str = CONTROLLER, manager: str = "") -> JsonObject:
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
        if resource.namespaced and resource != resources.NAMESPACES:
            self._ensure_namespace(key[0])
        obj = self._managed(self._admitted(resource, "create", obj, by), manager)
        obj = _judged(f"kube:create {resource.plural}", resource, defaulted(resource, obj, self._default_source), None)
        return self._write(resource, None, obj, by)

    def patch(
        self,
        resource: Resource,
        name: str,
        body: JsonObject,
        *,
        namespace: str = "",
        by: str = CONTROLLER,
        manager: str = "",
    ) -> JsonObject:
        """Merge a patch into an object. Raises NotFoundError, and ConflictError where a resourceVersion differs."""
        old = self.get(resource, name, namespace)
        wanted = (body.get("metadata") or {}).get("resourceVersion")
        if wanted not in (None, old["metadata"]["resourceVersion"]):
            raise ConflictError(f"kube:patch {resource.plural}", f"{name}: the object has been modified")
        new: JsonObject = merged(old, _changeable(body))
        if new is old:
            return old
        new = self._managed(new, manager)
        if self._admissions and new.get("status") is old.get("status"):
            new = self._admitted(resource, "update", new, by)
        new = _judged(f"kube:patch {resource.plural}", resource, new, old)
        if new.get("spec") is not old.get("spec") and not _is_bound(resource, old, new):
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
        self._admitted(resource, "delete", obj, by)
        self._deleted_by.setdefault(uid_of(obj), by)
        grace = _grace_of(obj, grace_seconds) if resource == resources.PODS else 0
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
        if self.find(resources.NAMESPACES, namespace) is None:
            self.create(resources.NAMESPACES, {"metadata": {"name": namespace}})

    def _default_source(self, resource: Resource, name: str) -> JsonObject | None:
        if name:
            return self.find(resource, name)
        return next((obj for obj in self.all(resource) if _is_default(obj)), None)

    def _write(
        self, resource: Resource, old: JsonObject | None, new: JsonObject, by: str, cause: str = ""
    ) -> JsonObject:
        self.version += 1
        if self._history is not None:
            self._history.append((self.clock.now(), resource, key_of(new), old))
        new = {**new, "metadata": {**new["metadata"], "resourceVersion": str(self.version)}}
        self._put(resource, old, new)
        self._notify(Change(resource=resource, old=old, new=new, by=by, cause=cause))
        return new

    def _remove(self, resource: Resource, obj: JsonObject, by: str, cause: str = "") -> None:
        self.version += 1
        if self._history is not None:
            self._history.append((self.clock.now(), resource, key_of(obj), self.find(resource, *reversed(key_of(obj)))))
        self._take_out(resource, key_of(obj))
        first = self._deleted_by.pop(uid_of(obj), by)
        self._notify(Change(resource=resource, old=obj, new=None, by=first, cause=cause))

    def _notify(self, change: Change) -> None:
        for callback in self._watchers[change.resource]:
            callback(change)


def _judged(call: str, resource: Resource, obj: JsonObject, old: JsonObject | None) -> JsonObject:
    """Return the object as the CustomResourceDefinitions let it be stored. Raises DeniedError if they do not."""
    try:
        return stored(resource, obj, old)
    except InvalidInputError as error:
        raise DeniedError(call, f"422 {error}") from error


def _is_default(obj: JsonObject) -> bool:
    marked = annotations_of(obj).get("storageclass.kubernetes.io/is-default-class") == "true"
    return marked or bool(obj.get("globalDefault"))


def _is_bound(resource: Resource, old: JsonObject, new: JsonObject) -> bool:
    """Whether the change binds a pod: the only change of a spec that leaves `generation` as it was (Kubernetes)."""
    return resource == resources.PODS and node_of(new) != node_of(old)


def _is_in_grace(obj: JsonObject) -> bool:
    return bool(obj["metadata"].get("deletionGracePeriodSeconds"))


def _changeable(patch: JsonObject) -> JsonObject:
    """The patch without what only the API server may change."""
    if "metadata" not in patch:
        return patch
    metadata = {key: value for key, value in patch["metadata"].items() if key not in _SERVER_FIELDS}
    return {**patch, "metadata": metadata}


def _grace_of(pod: JsonObject, requested: int | None) -> int:
    """A pod that never ran or has finished goes at once, as in the API server."""
    if not node_of(pod) or is_finished(pod):
        return 0
    default = spec_of(pod).get("terminationGracePeriodSeconds", 30)
    return int(default if requested is None else requested)
