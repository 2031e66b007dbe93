"""The simulated cluster as the rest of the embedded world uses it."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from random import Random
from typing import Final

from core.api.objects import JsonObject
from core.errors import InvalidInputError
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from simulator.clock import VirtualClock
from simulator.cluster.admission import check
from simulator.cluster.api import ClusterApi, FaultHook
from simulator.cluster.audit import AuditListener, AuditLog
from simulator.cluster.event_recorder import EventRecorder
from simulator.cluster.eviction import Evictions
from simulator.cluster.garbage_collection import GarbageCollector
from simulator.cluster.kubelet import Kubelets
from simulator.cluster.merge_patch import difference
from simulator.cluster.node_lifecycle import NodeLifecycle
from simulator.cluster.objects import USER, key_of
from simulator.cluster.pod_bindings import PodBindings
from simulator.cluster.pod_disruption_budgets import PodDisruptionBudgets
from simulator.cluster.scheduling.scheduler import Scheduler
from simulator.cluster.store import Store
from simulator.cluster.taint_eviction import TaintEviction
from simulator.cluster.volumes.attacher import VolumeAttacher
from simulator.cluster.volumes.binder import VolumeBinder
from simulator.cluster.workloads.cron_jobs import CronJobs
from simulator.cluster.workloads.daemon_sets import DaemonSets
from simulator.cluster.workloads.deployments import Deployments
from simulator.cluster.workloads.jobs import Jobs
from simulator.cluster.workloads.replica_sets import ReplicaSets
from simulator.cluster.workloads.stateful_sets import StatefulSets
from simulator.record import Recorder

_FIRST: Final = (kinds.NAMESPACES, kinds.PRIORITY_CLASSES, kinds.STORAGE_CLASSES)
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
        scheduler, self._kubelets = _start_control_plane(self._store)
        bindings = PodBindings(self._store, scheduler, recorder)
        self.api = ClusterApi(self._store, Evictions(self._store), bindings, recorder)
        self._applied: dict[tuple[Resource, tuple[str, str]], JsonObject] = {}

    def apply(self, objects: Iterable[JsonObject], by: str = USER) -> None:
        """Create or update objects, as `kubectl apply` does: what the last manifest had and this one lacks is removed.

        Unknown kinds are ignored.

        Raises:
            InvalidInputError: If the API server would refuse one of them; none is applied then.
        """
        known = [(kinds.BY_KIND[obj["kind"]], obj) for obj in objects if obj.get("kind") in kinds.BY_KIND]
        for resource, obj in known:
            check(resource, obj)
        for resource, obj in sorted(known, key=lambda pair: pair[0] not in _FIRST):
            self._apply(resource, copy.deepcopy(obj), by)

    def scale(self, kind: str, namespace: str, name: str, replicas: int, by: str = USER) -> None:
        """Set a workload's replicas. Raises InvalidInputError for an unknown kind, NotFoundError for an unknown name."""
        field = "parallelism" if kind == "Job" else "replicas"
        self._store.patch(_resource(kind), name, {"spec": {field: replicas}}, namespace=namespace, by=by)

    def delete(self, kind: str, namespace: str, name: str, by: str = USER) -> None:
        """Delete an object; what it owns goes too, in the background. Raises as `scale` does."""
        resource = _resource(kind)
        self._store.delete(resource, name, namespace=namespace if resource.namespaced else "", by=by)
        self._applied.pop((resource, (namespace, name)), None)

    def join_node(self, node: JsonObject, *, node_claim: str = "") -> None:
        """Register the Node of an instance that has booted, the one that `node_claim` was launched for by its tags."""
        self._kubelets.join(copy.deepcopy(node), node_claim)

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
        return self._store.all(kinds.PODS)

    def nodes(self) -> tuple[JsonObject, ...]:
        """Return all current nodes, by name. Do not change them."""
        return self._store.all(kinds.NODES)

    def objects(self, kind: str) -> tuple[JsonObject, ...]:
        """Return all current objects of a kind. Do not change them. Raises InvalidInputError for an unknown kind."""
        return self._store.all(_resource(kind))

    def _apply(self, resource: Resource, obj: JsonObject, by: str) -> None:
        if resource.namespaced:
            obj["metadata"].setdefault("namespace", "default")
        else:
            obj["metadata"].pop("namespace", None)
        namespace, name = key_of(obj)
        before = self._applied.get((resource, (namespace, name)))
        self._applied[resource, (namespace, name)] = obj
        if self._store.find(resource, name, namespace) is None:
            if resource == kinds.NODES:
                self._kubelets.adopt(obj)
                return
            self._store.create(resource, obj, by=by)
            return
        patch = {key: value for key, value in obj.items() if key != "status"}
        if before is not None:
            patch = _pruned(difference(before, obj), patch)
        self._store.patch(resource, name, patch, namespace=namespace, by=by)


def _start_control_plane(store: Store) -> tuple[Scheduler, Kubelets]:
    """Start the controllers, the scheduler and the kubelets; they listen to the store in this order."""
    GarbageCollector(store)
    for resource in (kinds.REPLICA_SETS, kinds.REPLICATION_CONTROLLERS):
        ReplicaSets(store, resource)
    Deployments(store)
    StatefulSets(store)
    DaemonSets(store)
    Jobs(store)
    CronJobs(store)
    PodDisruptionBudgets(store)
    TaintEviction(store)
    scheduler = Scheduler(store, VolumeBinder(store))
    return scheduler, Kubelets(store, VolumeAttacher(store), NodeLifecycle(store))


def _pruned(removals: JsonObject, patch: JsonObject) -> JsonObject:
    """The patch, with a null for every field that the last manifest had and this one lacks."""
    result = dict(patch)
    for key, value in removals.items():
        if value is None:
            result[key] = None
        elif isinstance(value, dict) and isinstance(patch.get(key), dict):
            result[key] = _pruned(value, patch[key])
    return result


def _resource(kind: str) -> Resource:
    if kind not in kinds.BY_KIND:
        raise InvalidInputError(f"{kind!r} is not a kind that the simulated cluster knows")
    return kinds.BY_KIND[kind]
