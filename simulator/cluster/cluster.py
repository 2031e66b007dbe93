"""The simulated cluster as the rest of the embedded world uses it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any, Final
from zoneinfo import available_timezones

from cronsim import CronSim, CronSimError

from core.api.objects import JsonObject, group_and_version, kind_of
from core.errors import InvalidInputError
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.values import quantity
from core.model.values.requirements import labels_fault
from simulator.clock import VirtualClock
from simulator.cluster.api import ClusterApi, Evictions, FaultHook, PodBindings
from simulator.cluster.controllers import CONTROLLER_DELAY, NodeLifecycle, PodDisruptionBudgets, WorkQueue, tolerates
from simulator.cluster.definitions import stored
from simulator.cluster.jobs import CronJobs, Jobs
from simulator.cluster.kubelet import EventRecorder, Kubelets
from simulator.cluster.scheduler import OtherScheduler, Scheduler
from simulator.cluster.scheduler_state import nominated_node
from simulator.cluster.store import (
    CONTROLLER,
    PROGRAM,
    RUN_SECONDS,
    USER,
    Change,
    Key,
    Store,
    condition_of,
    difference,
    is_active,
    is_deleting,
    is_finished,
    key_of,
    name_of,
    node_of,
    phase_of,
    spec_of,
    uid_of,
)
from simulator.cluster.volumes import VolumeAttacher, VolumeBinder
from simulator.cluster.workloads import DaemonSets, Deployments, ReplicaSets, StatefulSets
from simulator.record import Recorder

# Rejects objects as the API server would: those that could not be parsed or run. It checks before anything is applied.


_ANY_TIME: Final = datetime(2026, 1, 1, tzinfo=UTC)
_TEMPLATES: Final[Mapping[Resource, tuple[str, ...]]] = {
    resources.PODS: (),
    resources.DEPLOYMENTS: ("spec", "template"),
    resources.REPLICA_SETS: ("spec", "template"),
    resources.REPLICATION_CONTROLLERS: ("spec", "template"),
    resources.STATEFUL_SETS: ("spec", "template"),
    resources.DAEMON_SETS: ("spec", "template"),
    resources.JOBS: ("spec", "template"),
    resources.CRON_JOBS: ("spec", "jobTemplate", "spec", "template"),
}
"""Path of the pod template in each kind."""


def check(resource: Resource, obj: JsonObject) -> None:
    """Refuse an object that the API server would refuse.

    Raises:
        InvalidInputError: Names the object and the field.
    """
    subject = f"{resource.kind} {decoding.name_of(obj)}"
    if not (obj.get("metadata") or {}).get("name"):
        raise InvalidInputError("is required", subject=subject, field="metadata.name")
    decoding.from_object(resource, obj)
    if obj.get("apiVersion") == resource.api_version:
        stored(resource, obj)
    try:
        if resource in _TEMPLATES:
            _check_pod(obj, _TEMPLATES[resource])
        if resource == resources.CRON_JOBS:
            _check_schedule(obj["spec"])
        if resource == resources.NODES:
            for field in ("capacity", "allocatable"):
                _check_quantities((obj.get("status") or {}).get(field), f"status.{field}")
    except InvalidInputError as error:
        raise error.within(subject=subject) from error


def _check_pod(obj: JsonObject, path: tuple[str, ...]) -> None:
    pod, prefix = obj, ""
    for part in path:
        prefix = f"{prefix}{part}."
        pod = pod.get(part) or {}
    if not (pod.get("spec") or {}).get("containers"):
        raise InvalidInputError("is required", field=f"{prefix}spec.containers")
    named = {"metadata.labels": pod.get("metadata") or {}, "spec.nodeSelector": pod["spec"]}
    for field, holder in named.items():
        fault = labels_fault(holder.get(field.rpartition(".")[2]) or {})
        if fault:
            raise InvalidInputError(fault, field=f"{prefix}{field}")
    for field, quantities in _requests(pod["spec"]):
        _check_quantities(quantities, f"{prefix}{field}")
    seconds = ((pod.get("metadata") or {}).get("annotations") or {}).get(RUN_SECONDS, "0")
    if not seconds.replace(".", "", 1).isdigit():
        problem = f"{seconds!r} is not a number of seconds"
        raise InvalidInputError(problem, field=f"{prefix}metadata.annotations[{RUN_SECONDS}]")


def _requests(spec: JsonObject) -> Iterator[tuple[str, Any]]:
    yield "spec.overhead", spec.get("overhead")
    for kind in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(kind) or ()):
            for field in ("requests", "limits"):
                name = f"spec.{kind}[{index}].resources.{field}"
                yield name, (container.get("resources") or {}).get(field)


def _check_quantities(quantities: Mapping[str, Any] | None, field: str) -> None:
    for name, value in sorted((quantities or {}).items()):
        try:
            amount = quantity.parse(value, name)
        except InvalidInputError as error:
            raise error.within(field=f"{field}.{name}") from error
        if amount < 0:
            raise InvalidInputError(f"{value!r} must not be negative", field=f"{field}.{name}")


def _check_schedule(spec: JsonObject) -> None:
    schedule = str(spec.get("schedule", ""))
    try:
        CronSim(schedule, _ANY_TIME)
    except CronSimError as error:
        problem = f"{schedule!r} is not a cron schedule: {error}"
        raise InvalidInputError(problem, field="spec.schedule") from error
    zone = spec.get("timeZone") or "UTC"
    if zone not in available_timezones():
        raise InvalidInputError(f"{zone!r} is not a time zone", field="spec.timeZone")


# The part of the API server's audit log that functions subscribe to: pending, finished or deleted pods, changed NodePools.


AuditListener = Callable[[JsonObject], None]

_USERS: Final = {
    PROGRAM: "fleetwright",
    USER: "kubernetes-admin",
    CONTROLLER: "system:serviceaccount:kube-system:controller",
}
_GROUPS: Final = {_USERS[PROGRAM]: ["fleetwright:execute", "system:authenticated"]}
_SCHEDULER: Final = "system:kube-scheduler"
_KUBELET: Final = "system:node:"
_OK: Final = 200
_CREATED: Final = 201

_WITH_BODIES, _METADATA = "RequestResponse", "Metadata"
_NOT_NAMED_BY_EKS: Final = "karpenter.sh"
"""A group that EKS's audit policy does not name (docs/engineering/aws-facts.md#metadata-only-audit)."""


class AuditLog:
    """Turns changes into audit events of the stage ResponseComplete and passes them to its listeners."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: list[AuditListener] = []
        self._count = 0
        store.watch(self._pod_changed, resources.PODS)
        store.watch(self._node_pool_changed, resources.NODE_POOLS)
        store.watch(self._node_claim_changed, resources.NODE_CLAIMS)

    def listen(self, listener: AuditListener) -> None:
        """Call `listener` with each event from now on."""
        self._listeners.append(listener)

    def _pod_changed(self, change: Change) -> None:
        if change.new is None:
            graceful = change.old is not None and is_deleting(change.old)
            user = _KUBELET + change.obj["spec"].get("nodeName", "") if graceful else _USERS[change.by]
            self._emit(resources.PODS, change.obj, "delete", user, None, response=change.obj)
        elif change.old is not None and is_deleting(change.new) and not is_deleting(change.old):
            # An eviction is logged as `create pods/eviction`, which no function is subscribed to.
            if change.cause != "eviction":
                self._emit(resources.PODS, change.new, "delete", _USERS[change.by], None)
        elif _is_verdict(change):
            patch = {"status": {"conditions": [condition_of(change.new, "PodScheduled")]}}
            self._emit(resources.PODS, change.new, "patch", _SCHEDULER, patch, subresource="status")
        elif change.old is not None and is_finished(change.new) and not is_finished(change.old) and node_of(change.new):
            finished = {"status": {"phase": phase_of(change.new)}}
            user = _KUBELET + node_of(change.new)
            self._emit(resources.PODS, change.new, "patch", user, finished, subresource="status")
        elif change.old is not None and not node_of(change.new) and _renominated(change.old, change.new):
            user = _USERS[PROGRAM] if change.by == PROGRAM else _SCHEDULER
            named: JsonObject = {"nominatedNodeName": nominated_node(change.new) or None}
            renamed: JsonObject = {"status": named}
            self._emit(resources.PODS, change.new, "patch", user, renamed, subresource="status", response=change.new)

    def _node_pool_changed(self, change: Change) -> None:
        user = _USERS[change.by]
        if change.new is None:
            self._emit(resources.NODE_POOLS, change.obj, "delete", user, None)
        elif change.old is None:
            self._emit(resources.NODE_POOLS, change.new, "create", user, change.new, code=_CREATED)
        else:
            subresource = "status" if change.old.get("spec") is change.new.get("spec") else ""
            self._emit(resources.NODE_POOLS, change.new, "patch", user, change.new, subresource=subresource)

    def _node_claim_changed(self, change: Change) -> None:
        was_deleted = change.old is not None and is_deleting(change.old)
        if (change.new is None or is_deleting(change.new)) and not was_deleted:
            self._emit(resources.NODE_CLAIMS, change.obj, "delete", _USERS[change.by], None)
        elif change.old is None:
            self._emit(resources.NODE_CLAIMS, change.obj, "create", _USERS[change.by], change.new, code=_CREATED)

    def _emit(
        self,
        resource: Resource,
        obj: JsonObject,
        verb: str,
        user: str,
        request: JsonObject | None,
        *,
        response: JsonObject | None = None,
        subresource: str = "",
        code: int = _OK,
    ) -> None:
        if not self._listeners or self._store.is_restoring:
            return
        self._count += 1
        event = self._event(resource, obj, verb, user)
        if subresource:
            event["objectRef"]["subresource"] = subresource
        if event["level"] == _WITH_BODIES:
            bodies = {"requestObject": request, "responseObject": response}
            event |= {name: body for name, body in bodies.items() if body is not None}
        event["responseStatus"] = {"metadata": {}, "code": code}
        for listener in self._listeners:
            listener(event)

    def _event(self, resource: Resource, obj: JsonObject, verb: str, user: str) -> JsonObject:
        namespace, name = key_of(obj)
        stamp = self._store.clock.now().replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        reference = {"resource": resource.plural, "name": name, "uid": uid_of(obj), "apiVersion": resource.version}
        if (
            verb == "create" and "generateName" in obj["metadata"]
        ):  # the API server chooses the name after it has read the URI
            del reference["name"]
        reference |= {"namespace": namespace} if namespace else {}
        reference |= {"apiGroup": resource.group} if resource.group else {}
        return {
            "kind": "Event",
            "apiVersion": "audit.k8s.io/v1",
            "level": _METADATA if resource.group == _NOT_NAMED_BY_EKS else _WITH_BODIES,
            "auditID": f"00000000-0000-4000-8000-{self._count:012d}",
            "stage": "ResponseComplete",
            "requestURI": resource.path(name, namespace),
            "verb": verb,
            "user": {"username": user, "groups": _GROUPS.get(user, [])},
            "objectRef": reference,
            "requestReceivedTimestamp": stamp,
            "stageTimestamp": stamp,
            "annotations": {"authorization.k8s.io/decision": "allow"},
        }


def _renominated(old: JsonObject, new: JsonObject) -> bool:
    return nominated_node(old) != nominated_node(new)


def _is_verdict(change: Change) -> bool:
    """Whether the scheduler has just reported, or repeated, that no node can take the pod."""
    condition = condition_of(change.obj, "PodScheduled")
    is_unschedulable = condition.get("status") == "False" and condition.get("reason") == "Unschedulable"
    return bool(is_unschedulable) and (change.old is None or condition_of(change.old, "PodScheduled") != condition)


# Background garbage collection: an object's dependents are deleted after it, and so are the objects in a Namespace.


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
        if change.resource == resources.NAMESPACES:
            name = name_of(change.obj)
            self._store.clock.after(CONTROLLER_DELAY, lambda: self._empty(name))

    def _collect(self, uid: str) -> None:
        for resource, obj in self._store.owned_by(uid):
            others = [ref["uid"] for ref in obj["metadata"]["ownerReferences"] if ref["uid"] != uid]
            if not is_deleting(obj) and not any(self._store.has_uid(other) for other in others):
                namespace, name = key_of(obj)
                self._store.delete(resource, name, namespace=namespace)

    def _empty(self, namespace: str) -> None:
        if self._store.find(resources.NAMESPACES, namespace) is not None:
            return
        for resource in resources.ALL:
            for obj in self._store.in_namespace(resource, namespace) if resource.namespaced else ():
                present = self._store.find(resource, name_of(obj), namespace)
                if present is not None and not is_deleting(present):
                    self._store.delete(resource, name_of(obj), namespace=namespace)


# NoExecute taints: pods that do not tolerate them are deleted; those with tolerationSeconds are deleted after that time.


class TaintEviction:
    """The controller that deletes pods which do not tolerate a NoExecute taint of their node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = WorkQueue(store.clock, self._reconcile)
        self._since: dict[str, datetime] = {}
        store.watch(self._node_changed, resources.NODES)
        store.watch(self._pod_changed, resources.PODS)

    def _node_changed(self, change: Change) -> None:
        before = spec_of(change.old).get("taints") if change.old else None
        if change.new is not None and spec_of(change.new).get("taints") != before:
            self._queue.add(("", name_of(change.new)))

    def _pod_changed(self, change: Change) -> None:
        if change.new is None:
            self._since.pop(uid_of(change.obj), None)
        elif node_of(change.new) and (change.old is None or not node_of(change.old)):
            node = self._store.find(resources.NODES, node_of(change.new))
            if node is not None and _driving(node):
                self._queue.add(("", name_of(node)))

    def _reconcile(self, key: Key) -> None:
        node = self._store.find(resources.NODES, key[1])
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
                self._store.delete(resources.PODS, name, namespace=namespace)


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


_FIRST: Final = (resources.NAMESPACES, resources.PRIORITY_CLASSES, resources.STORAGE_CLASSES)
"""Kinds applied before others that refer to them, in any input order."""


class Cluster:
    """A Kubernetes cluster in virtual time: API server, scheduler, controllers and kubelets.

    Attributes:
        api: The cluster's API, for functions.
    """

    def __init__(self, clock: VirtualClock, recorder: Recorder, rng: Random) -> None:
        self._store = Store(clock, rng)
        EventRecorder(self._store, recorder)
        self._audit = AuditLog(self._store)
        scheduler, self._kubelets = _start_control_plane(self._store, recorder)
        self._scheduler = scheduler
        bindings = PodBindings(self._store, scheduler, recorder)
        self.api = ClusterApi(self._store, Evictions(self._store), bindings, recorder)
        self._applied: dict[tuple[Resource, tuple[str, str]], JsonObject] = {}

    def apply(self, objects: Iterable[JsonObject], by: str = USER, manager: str = "") -> None:
        """Create or update objects, as `kubectl apply` does: what the last manifest had and this one lacks is removed.

        Unknown kinds are ignored. `manager` is who the objects' managedFields name; empty: they name nobody.

        Raises:
            InvalidInputError: If the API server would refuse one of them; none is applied then.
        """
        known_objects = [(resource, obj) for obj in objects if (resource := _resource_of(obj)) is not None]
        for resource, obj in known_objects:
            check(resource, obj)
        for resource, obj in sorted(known_objects, key=lambda pair: pair[0] not in _FIRST):
            self._apply(resource, copy.deepcopy(obj), by, manager)

    def scale(self, kind: str, namespace: str, name: str, replicas: int, by: str = USER) -> None:
        """Set a workload's replicas. Raises InvalidInputError for an unknown kind, NotFoundError for an unknown name."""
        field = "parallelism" if kind == "Job" else "replicas"
        self._store.patch(_resource(kind), name, {"spec": {field: replicas}}, namespace=namespace, by=by)

    def delete(self, kind: str, namespace: str, name: str, by: str = USER, api_version: str = "") -> None:
        """Delete an object; what it owns goes too, in the background. Raises as `scale` does.

        `api_version` tells which of several kinds of one name is meant.
        """
        resource = _resource(kind, api_version)
        self._store.delete(resource, name, namespace=namespace if resource.namespaced else "", by=by)
        self._applied.pop((resource, (namespace, name)), None)

    def join_node(self, node: JsonObject, *, node_claim: str = "", becomes_ready: bool = True) -> None:
        """Register the Node of an instance that has booted, the one that `node_claim` was launched for by its tags."""
        self._kubelets.join(copy.deepcopy(node), node_claim, becomes_ready=becomes_ready)

    @property
    def kubelets(self) -> Kubelets:
        """The kubelets of all running instances."""
        return self._kubelets

    @property
    def store(self) -> Store:
        """The API server's storage."""
        return self._store

    def patch(self, kind: str, namespace: str, name: str, body: JsonObject, by: str = USER) -> None:
        """Merge a patch into an object. Raises as `scale` does."""
        self._store.patch(_resource(kind), name, body, namespace=namespace, by=by)

    def bind_anywhere(self, labels: Mapping[str, str]) -> Callable[[], None]:
        """Start a second scheduler for pods with these labels; returns what ends it."""
        return OtherScheduler(self._store, self._scheduler, labels).stop

    def restore(self, moment: datetime, runs: Callable[[str], bool]) -> None:
        """Let the API server be as it was at a moment. `runs` tells by a providerID whether that instance still runs."""
        restored = self._store.restore(moment)
        self.api.compact()
        for node in restored:
            if runs(spec_of(node).get("providerID", "")):
                self._kubelets.revive(node)
            else:
                self._kubelets.forget(node)

    def lose_instance(self, provider_id: str) -> None:
        """Terminate an instance: its kubelet stops at once, the rest of the cluster notices later."""
        self._kubelets.lose(provider_id)

    def on_fault_point(self, hook: FaultHook) -> None:
        """Call `hook(call, "before" | "after")` around each call of a function; it may raise."""
        self.api.on_fault_point(hook)

    def on_audit_event(self, listener: AuditListener) -> None:
        """Call `listener` with each audit event that a function may be subscribed to."""
        self._audit.listen(listener)

    def pods(self) -> tuple[JsonObject, ...]:
        """Return all current pods, by namespace and name. Do not change them."""
        return self._store.all(resources.PODS)

    def nodes(self) -> tuple[JsonObject, ...]:
        """Return all current nodes, by name. Do not change them."""
        return self._store.all(resources.NODES)

    def objects(self, kind: str) -> tuple[JsonObject, ...]:
        """Return all current objects of a kind. Do not change them. Raises InvalidInputError for an unknown kind."""
        return self._store.all(_resource(kind))

    def _apply(self, resource: Resource, obj: JsonObject, by: str, manager: str) -> None:
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        else:
            obj["metadata"].pop("namespace", None)
        namespace, name = key_of(obj)
        before = self._applied.get((resource, (namespace, name)))
        self._applied[resource, (namespace, name)] = obj
        if self._store.find(resource, name, namespace) is None:
            if resource == resources.NODES:
                self._kubelets.adopt(obj)
                return
            self._store.create(resource, obj, by=by, manager=manager)
            return
        patch = {key: value for key, value in obj.items() if key != "status"}
        if before is not None:
            patch = _pruned(difference(before, obj), patch)
        self._store.patch(resource, name, patch, namespace=namespace, by=by, manager=manager)


def _start_control_plane(store: Store, recorder: Recorder) -> tuple[Scheduler, Kubelets]:
    """Start the controllers, the scheduler and the kubelets; they listen to the store in this order."""
    GarbageCollector(store)
    for resource in (resources.REPLICA_SETS, resources.REPLICATION_CONTROLLERS):
        ReplicaSets(store, resource)
    Deployments(store)
    StatefulSets(store)
    DaemonSets(store)
    Jobs(store)
    CronJobs(store)
    PodDisruptionBudgets(store)
    TaintEviction(store)
    scheduler = Scheduler(store, VolumeBinder(store))
    return scheduler, Kubelets(store, VolumeAttacher(store), NodeLifecycle(store), recorder)


def _pruned(removals: JsonObject, patch: JsonObject) -> JsonObject:
    """The patch, with a null for every field that the last manifest had and this one lacks."""
    result = dict(patch)
    for key, value in removals.items():
        if value is None:
            result[key] = None
        elif isinstance(value, dict) and isinstance(patch.get(key), dict):
            result[key] = _pruned(value, patch[key])
    return result


def _resource(kind: str, api_version: str = "") -> Resource:
    resource = _resource_of({"kind": kind, "apiVersion": api_version})
    if resource is None:
        raise InvalidInputError(f"{kind!r} is not a kind that the simulated cluster knows")
    return resource


def _resource_of(obj: JsonObject) -> Resource | None:
    """Return the kind of an object, None for one that is not known; without an `apiVersion` the name of the kind counts.

    Kinds of several API groups may have one name, and those of others are none of ours: Kueue has a Workload, too.
    """
    kind, (group, version) = kind_of(obj), group_and_version(obj)
    if not version:
        return resources.BY_KIND.get(kind)
    resource = resources.resource_read(group, kind)
    return resource if resource is not None and resource.kind == kind else None
