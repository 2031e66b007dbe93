"""Controllers of Deployments, ReplicaSets, StatefulSets and DaemonSets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from simulator.cluster.controllers import WorkQueue, amount, intolerable_taint, pinned_node, selects_node
from simulator.cluster.store import (
    Change,
    Key,
    Store,
    annotations_of,
    condition_of,
    controller_of,
    is_active,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    owner_reference,
    phase_of,
    spec_of,
    status_of,
)

# The common part of all workload controllers: waking when an owned object changes, and creating pods from a template.


_HASH_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
_HASH_LENGTH: Final = 10


def wake_for(store: Store, queue: WorkQueue, resource: Resource, *owned: Resource) -> None:
    """Mark objects of the kind when they change, or when something of these kinds changes that they control."""

    def itself(change: Change) -> None:
        namespace = namespace_of(change.obj)
        queue.add((namespace, change.obj["metadata"]["name"]))

    def controller(change: Change) -> None:
        reference = controller_of(change.obj)
        if reference is None or reference["kind"] != resource.kind:
            return
        if change.old is None or change.new is None or _watched_fields(change.old) != _watched_fields(change.new):
            queue.add((namespace_of(change.obj), reference["name"]))

    store.watch(itself, resource)
    store.watch(controller, *owned)


def _watched_fields(obj: JsonObject) -> tuple[object, ...]:
    """Return the fields of an object that a controller observes, without its node and scheduling reasons."""
    status = status_of(obj)
    counts = {key: value for key, value in status.items() if key != "conditions"}
    over = [c["type"] for c in status.get("conditions") or () if c["status"] == "True" and c["type"] != "PodScheduled"]
    return is_deleting(obj), labels_of(obj), counts, over, spec_of(obj).get("replicas")


def create_pod(
    store: Store,
    resource: Resource,
    owner: JsonObject,
    *,
    template: JsonObject | None = None,
    name: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: JsonObject | None = None,
) -> JsonObject:
    """Create a pod from the owner's template; without a name one is generated from the owner's."""
    template = template or owner["spec"]["template"]
    template_metadata = template.get("metadata") or {}
    metadata: JsonObject = {
        "namespace": namespace_of(owner),
        "labels": {**(template_metadata.get("labels") or {}), **(labels or {})},
        "annotations": {**(template_metadata.get("annotations") or {}), **(annotations or {})},
        "ownerReferences": [owner_reference(resource, owner)],
    }
    metadata |= {"name": name} if name else {"generateName": f"{owner['metadata']['name']}-"}
    if template_metadata.get("finalizers"):
        metadata["finalizers"] = template_metadata["finalizers"]
    body = {"metadata": metadata, "spec": {**(template.get("spec") or {}), **(spec or {})}}
    return store.create(resources.PODS, body)


def template_hash(template: Any) -> str:
    """Return ten letters that identify a pod template."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="deterministic")).digest()
    return "".join(_HASH_LETTERS[byte % len(_HASH_LETTERS)] for byte in digest[:_HASH_LENGTH])


# DaemonSets: a pod on each node that they fit, before the node is ready if they tolerate that.


_REVISION: Final = "controller-revision-hash"
_TOLERATED: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
"""Tolerations that the DaemonSet controller adds to its pods (Kubernetes documentation, DaemonSet, taints and tolerations)."""


class DaemonSets:
    """Keeps one pod of each DaemonSet on each node that it fits, and exchanges outdated ones."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = WorkQueue(store.clock, self._reconcile)
        wake_for(store, self._queue, resources.DAEMON_SETS, resources.PODS)
        store.watch(self._node_changed, resources.NODES)

    def _node_changed(self, change: Change) -> None:
        if change.old is not None and change.new is not None and _fit_inputs(change.old) == _fit_inputs(change.new):
            return
        for daemon_set in self._store.all(resources.DAEMON_SETS):
            self._queue.add(key_of(daemon_set))

    def _reconcile(self, key: Key) -> None:
        daemon_set = self._store.find(resources.DAEMON_SETS, key[1], key[0])
        if daemon_set is None or is_deleting(daemon_set):
            return
        by_node: dict[str, list[JsonObject]] = {}
        for pod in self._store.owned(resources.PODS, daemon_set):
            by_node.setdefault(node_of(pod) or pinned_node(pod), []).append(pod)
        spec = _daemon_spec(daemon_set)
        wanted = 0
        for node in self._store.all(resources.NODES):
            pods = by_node.pop(name_of(node), [])
            should_run, may_stay = _verdict(spec, node)
            wanted += should_run
            if should_run and not pods:
                self._create(daemon_set, spec, node)
            self._tidy(pods, may_stay=may_stay)
        for node_name in sorted(by_node):
            self._drop_unbound(by_node[node_name])
        self._update(daemon_set, wanted)
        self._report(daemon_set, wanted)

    def _tidy(self, pods: list[JsonObject], *, may_stay: bool) -> None:
        """Delete finished pods, so that they are made again, and those that must not run here."""
        for pod in pods:
            if not is_deleting(pod) and (is_finished(pod) or not may_stay):
                self._delete(pod)

    def _drop_unbound(self, pods: list[JsonObject]) -> None:
        """Pods for a node that is gone: those that it never got are deleted here, the others as orphans."""
        for pod in pods:
            if not node_of(pod) and not is_deleting(pod):
                self._delete(pod)

    def _update(self, daemon_set: JsonObject, wanted: int) -> None:
        strategy = daemon_set["spec"]["updateStrategy"]
        if strategy.get("type") == "OnDelete":
            return
        revision = template_hash(daemon_set["spec"]["template"])
        pods = self._store.owned(resources.PODS, daemon_set)
        outdated = [pod for pod in pods if not is_deleting(pod) and labels_of(pod).get(_REVISION) != revision]
        rolling = strategy.get("rollingUpdate") or {}
        allowed = max(1, amount(rolling.get("maxUnavailable", 1), wanted, round_up=True))
        unavailable = sum(is_deleting(pod) or not is_ready(pod) for pod in pods) + max(0, wanted - len(pods))
        for pod in outdated:
            if is_ready(pod):
                if unavailable >= allowed:
                    continue
                unavailable += 1
            self._delete(pod)

    def _create(self, daemon_set: JsonObject, spec: JsonObject, node: JsonObject) -> None:
        term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name_of(node)]}]}
        affinity = spec.get("affinity") or {}
        on_node = {**(affinity.get("nodeAffinity") or {})}
        on_node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
        changes = {**spec, "affinity": {**affinity, "nodeAffinity": on_node}}
        revision = {_REVISION: template_hash(daemon_set["spec"]["template"])}
        create_pod(self._store, resources.DAEMON_SETS, daemon_set, labels=revision, spec=changes)

    def _delete(self, pod: JsonObject) -> None:
        namespace, name = key_of(pod)
        self._store.delete(resources.PODS, name, namespace=namespace)

    def _report(self, daemon_set: JsonObject, wanted: int) -> None:
        pods = self._store.owned(resources.PODS, daemon_set)
        self._store.patch_status(
            resources.DAEMON_SETS,
            daemon_set,
            desiredNumberScheduled=wanted,
            currentNumberScheduled=len(pods),
            numberReady=sum(is_ready(pod) for pod in pods),
            observedGeneration=daemon_set["metadata"]["generation"],
        )


def _daemon_spec(daemon_set: JsonObject) -> JsonObject:
    spec = dict(daemon_set["spec"]["template"].get("spec") or {})
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    if spec.get("hostNetwork"):
        key = "node.kubernetes.io/network-unavailable"
        added.append({"key": key, "operator": "Exists", "effect": "NoSchedule"})
    spec["tolerations"] = [*(spec.get("tolerations") or []), *added]
    return spec


def _verdict(spec: JsonObject, node: JsonObject) -> tuple[bool, bool]:
    """Whether a pod of the set should start on the node, and whether one that runs there may stay."""
    if not selects_node(spec, node) or spec.get("nodeName") not in (None, "", name_of(node)):
        return False, False
    may_start = intolerable_taint(spec, node, ("NoSchedule", "NoExecute")) is None
    may_stay = intolerable_taint(spec, node, ("NoExecute",)) is None
    return may_start, may_stay


def _fit_inputs(node: JsonObject) -> tuple[object, ...]:
    return labels_of(node), spec_of(node).get("taints"), spec_of(node).get("unschedulable")


_HASH_LABEL: Final = "pod-template-hash"
_DEPLOYMENT_REVISION: Final = "deployment.kubernetes.io/revision"


class Deployments:
    """Rolls the pods of each Deployment to its present template within maxSurge and maxUnavailable."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queue = WorkQueue(store.clock, self._reconcile)
        wake_for(store, self._queue, resources.DEPLOYMENTS, resources.REPLICA_SETS)
        store.watch(self._pod_gone, resources.PODS)

    def _pod_gone(self, change: Change) -> None:
        """The last old pod's end lets Recreate go on, and an old ReplicaSet be forgotten."""
        reference = controller_of(change.obj) if change.new is None else None
        if reference is None or reference["kind"] != resources.REPLICA_SETS.kind:
            return
        replica_set = self._store.find(resources.REPLICA_SETS, reference["name"], namespace_of(change.obj))
        owner = controller_of(replica_set) if replica_set else None
        if owner is not None:
            self._queue.add((namespace_of(change.obj), owner["name"]))

    def _reconcile(self, key: Key) -> None:
        deployment = self._store.find(resources.DEPLOYMENTS, key[1], key[0])
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
        old = [o for o in old if _size(o) or self._store.owned(resources.PODS, o)]
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
        if not any(self._store.owned(resources.PODS, replica_set) for replica_set in old):
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
        owned = sorted(self._store.owned(resources.REPLICA_SETS, deployment), key=_revision)
        current = next((o for o in owned if _is_of_template(o, deployment)), None)
        return current, [o for o in owned if o is not current]

    def _create(self, deployment: JsonObject) -> JsonObject:
        template = deployment["spec"]["template"]
        template_metadata = template.get("metadata") or {}
        hashed = {**(template_metadata.get("labels") or {}), _HASH_LABEL: template_hash(template)}
        selector = deployment["spec"].get("selector") or {}
        matched = {**(selector.get("matchLabels") or {}), _HASH_LABEL: hashed[_HASH_LABEL]}
        revisions = [_revision(o) for o in self._store.owned(resources.REPLICA_SETS, deployment)]
        namespace, name = key_of(deployment)
        body = {
            "metadata": {
                "name": f"{name}-{hashed[_HASH_LABEL]}",
                "namespace": namespace,
                "labels": hashed,
                "annotations": {_DEPLOYMENT_REVISION: str(max(revisions, default=0) + 1)},
                "ownerReferences": [owner_reference(resources.DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": 0,
                "selector": {**selector, "matchLabels": matched},
                "template": {**template, "metadata": {**template_metadata, "labels": hashed}},
            },
        }
        return self._store.create(resources.REPLICA_SETS, body)

    def _scale(self, replica_set: JsonObject, replicas: int) -> JsonObject:
        namespace, name = key_of(replica_set)
        return self._store.patch(resources.REPLICA_SETS, name, {"spec": {"replicas": replicas}}, namespace=namespace)

    def _forget_history(self, deployment: JsonObject) -> None:
        _, old = self._replica_sets(deployment)
        idle = [o for o in old if not _size(o) and not self._store.owned(resources.PODS, o)]
        for replica_set in idle[: max(0, len(idle) - deployment["spec"]["revisionHistoryLimit"])]:
            namespace, name = key_of(replica_set)
            self._store.delete(resources.REPLICA_SETS, name, namespace=namespace)

    def _report(self, deployment: JsonObject) -> None:
        current, old = self._replica_sets(deployment)
        replica_sets = [*old, current] if current else old
        self._store.patch_status(
            resources.DEPLOYMENTS,
            deployment,
            replicas=sum(status_of(o).get("replicas", 0) for o in replica_sets),
            updatedReplicas=status_of(current).get("replicas", 0) if current else 0,
            readyReplicas=sum(_available(o) for o in replica_sets),
            availableReplicas=sum(_available(o) for o in replica_sets),
            observedGeneration=deployment["metadata"]["generation"],
        )


def _revision(replica_set: JsonObject) -> int:
    return int(annotations_of(replica_set).get(_DEPLOYMENT_REVISION, 0))


def _is_of_template(replica_set: JsonObject, deployment: JsonObject) -> bool:
    """Whether the templates are equal but for the hash that the ReplicaSet's carries."""
    wanted, current = deployment["spec"]["template"], replica_set["spec"]["template"]
    wanted_metadata, current_metadata = wanted.get("metadata") or {}, current.get("metadata") or {}
    stripped = {key: value for key, value in (current_metadata.get("labels") or {}).items() if key != _HASH_LABEL}
    return current.get("spec") == wanted.get("spec") and {**current_metadata, "labels": stripped} == {
        "labels": {},
        **wanted_metadata,
    }


def _size(replica_set: JsonObject) -> int:
    return int(replica_set["spec"]["replicas"])


def _available(replica_set: JsonObject) -> int:
    return int(status_of(replica_set).get("availableReplicas", 0))


# ReplicaSets and ReplicationControllers: keep their number of pods.


_PHASE_RANK: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSets:
    """Keeps the number of active pods of each ReplicaSet, or ReplicationController, at its replicas."""

    def __init__(self, store: Store, resource: Resource) -> None:
        self._store = store
        self._resource = resource
        wake_for(store, WorkQueue(store.clock, self._reconcile), resource, resources.PODS)

    def _reconcile(self, key: Key) -> None:
        replica_set = self._store.find(self._resource, key[1], key[0])
        if replica_set is None:
            return
        pods = [pod for pod in self._store.owned(resources.PODS, replica_set) if is_active(pod)]
        if not is_deleting(replica_set):
            missing = replica_set["spec"]["replicas"] - len(pods)
            pods += [create_pod(self._store, self._resource, replica_set) for _ in range(missing)]
            if missing < 0:
                self._delete(pods, -missing)
        self._report(replica_set)

    def _delete(self, pods: list[JsonObject], surplus: int) -> None:
        for pod in sorted(pods, key=_deletion_rank)[:surplus]:
            namespace, name = key_of(pod)
            self._store.delete(resources.PODS, name, namespace=namespace)

    def _report(self, replica_set: JsonObject) -> None:
        pods = [pod for pod in self._store.owned(resources.PODS, replica_set) if is_active(pod)]
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


# StatefulSets: pods with stable names and volumes, one after the other.


class StatefulSets:
    """Brings each StatefulSet's pods up in order, down in reverse, and to a new template from the last to the first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        wake_for(store, WorkQueue(store.clock, self._reconcile), resources.STATEFUL_SETS, resources.PODS)

    def _reconcile(self, key: Key) -> None:
        stateful_set = self._store.find(resources.STATEFUL_SETS, key[1], key[0])
        if stateful_set is None or is_deleting(stateful_set):
            return
        pods = {name_of(pod): pod for pod in self._store.owned(resources.PODS, stateful_set)}
        if self._raise(stateful_set, pods) and self._lower(stateful_set, pods):
            self._update(stateful_set, pods)
        self._report(stateful_set)

    def _raise(self, stateful_set: JsonObject, pods: dict[str, JsonObject]) -> bool:
        """Create missing pods; true if all wanted pods exist, and are ready where order matters."""
        for ordinal in _ordinals(stateful_set):
            pod = pods.get(f"{name_of(stateful_set)}-{ordinal}")
            if pod is not None and is_finished(pod) and not is_deleting(pod):
                self._store.delete(resources.PODS, name_of(pod), namespace=key_of(pod)[0])
            elif pod is None:
                self._create(stateful_set, ordinal)
            if not _is_parallel(stateful_set) and (pod is None or not is_ready(pod) or is_deleting(pod)):
                return False
        return True

    def _lower(self, stateful_set: JsonObject, pods: dict[str, JsonObject]) -> bool:
        """Delete surplus pods, the highest ordinal first; true if there are none."""
        wanted = {f"{name_of(stateful_set)}-{ordinal}" for ordinal in _ordinals(stateful_set)}
        surplus = sorted((name for name in pods if name not in wanted), key=_ordinal_of, reverse=True)
        for name in surplus:
            if not is_deleting(pods[name]):
                self._store.delete(resources.PODS, name, namespace=key_of(stateful_set)[0])
            if not _is_parallel(stateful_set):
                return False
        return not surplus

    def _update(self, stateful_set: JsonObject, pods: dict[str, JsonObject]) -> None:
        """Delete outdated pods, the highest first, as many at a time as may be unavailable."""
        strategy = stateful_set["spec"]["updateStrategy"]
        if strategy.get("type") == "OnDelete":
            return
        rolling = strategy.get("rollingUpdate") or {}
        allowed = max(1, amount(rolling.get("maxUnavailable", 1), len(pods), round_up=True))
        revision = template_hash(stateful_set["spec"]["template"])
        unavailable = sum(is_deleting(pod) or not is_ready(pod) for pod in pods.values())
        for ordinal in reversed(_ordinals(stateful_set)):
            pod = pods.get(f"{name_of(stateful_set)}-{ordinal}")
            if ordinal < rolling.get("partition", 0) or pod is None:
                return
            if is_deleting(pod) or labels_of(pod).get(_REVISION) == revision:
                continue
            if is_ready(pod):
                if unavailable >= allowed:
                    return
                unavailable += 1
            self._store.delete(resources.PODS, name_of(pod), namespace=key_of(pod)[0])

    def _create(self, stateful_set: JsonObject, ordinal: int) -> None:
        name = f"{name_of(stateful_set)}-{ordinal}"
        spec = stateful_set["spec"]["template"].get("spec") or {}
        templates = stateful_set["spec"].get("volumeClaimTemplates") or []
        claimed = {template["metadata"]["name"]: f"{template['metadata']['name']}-{name}" for template in templates}
        for template in templates:
            self._claim(stateful_set, template, claimed[template["metadata"]["name"]])
        volumes = [volume for volume in spec.get("volumes") or [] if volume["name"] not in claimed]
        volumes += [{"name": n, "persistentVolumeClaim": {"claimName": claim}} for n, claim in claimed.items()]
        reference = {
            "statefulset.kubernetes.io/pod-name": name,
            "apps.kubernetes.io/pod-index": str(ordinal),
            _REVISION: template_hash(stateful_set["spec"]["template"]),
        }
        changes = {"hostname": name, **({"volumes": volumes} if volumes else {})}
        create_pod(self._store, resources.STATEFUL_SETS, stateful_set, name=name, labels=reference, spec=changes)

    def _claim(self, stateful_set: JsonObject, template: JsonObject, name: str) -> None:
        namespace = key_of(stateful_set)[0]
        if self._store.find(resources.PERSISTENT_VOLUME_CLAIMS, name, namespace) is not None:
            return
        selector = (stateful_set["spec"].get("selector") or {}).get("matchLabels") or {}
        metadata = {**template["metadata"], "name": name, "namespace": namespace}
        metadata["labels"] = {**(metadata.get("labels") or {}), **selector}
        self._store.create(resources.PERSISTENT_VOLUME_CLAIMS, {"metadata": metadata, "spec": template["spec"]})

    def _report(self, stateful_set: JsonObject) -> None:
        pods = self._store.owned(resources.PODS, stateful_set)
        ready = sum(is_ready(pod) and not is_deleting(pod) for pod in pods)
        self._store.patch_status(
            resources.STATEFUL_SETS,
            stateful_set,
            replicas=len(pods),
            readyReplicas=ready,
            availableReplicas=ready,
            observedGeneration=stateful_set["metadata"]["generation"],
        )


def _ordinals(stateful_set: JsonObject) -> range:
    start = (stateful_set["spec"].get("ordinals") or {}).get("start", 0)
    return range(start, start + stateful_set["spec"]["replicas"])


def _is_parallel(stateful_set: JsonObject) -> bool:
    return bool(stateful_set["spec"]["podManagementPolicy"] == "Parallel")


def _ordinal_of(name: str) -> int:
    return int(name.rpartition("-")[2])
