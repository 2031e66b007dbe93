"""DaemonSets: a pod on each node that they fit, before the node is ready if they tolerate that."""

from __future__ import annotations

from typing import Final

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.int_or_percent import amount
from simulator.cluster.node_fit import intolerable_taint, pinned_node, selects_node
from simulator.cluster.objects import (
    Key,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    labels_of,
    name_of,
    node_of,
    spec_of,
)
from simulator.cluster.store import Change, Store
from simulator.cluster.work_queue import WorkQueue
from simulator.cluster.workloads.ownership import create_pod, template_hash, wake_for

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
        wake_for(store, self._queue, kinds.DAEMON_SETS, kinds.PODS)
        store.watch(self._node_changed, kinds.NODES)

    def _node_changed(self, change: Change) -> None:
        if change.old is not None and change.new is not None and _fit_inputs(change.old) == _fit_inputs(change.new):
            return
        for daemon_set in self._store.all(kinds.DAEMON_SETS):
            self._queue.add(key_of(daemon_set))

    def _reconcile(self, key: Key) -> None:
        daemon_set = self._store.find(kinds.DAEMON_SETS, key[1], key[0])
        if daemon_set is None or is_deleting(daemon_set):
            return
        by_node: dict[str, list[JsonObject]] = {}
        for pod in self._store.owned(kinds.PODS, daemon_set):
            by_node.setdefault(node_of(pod) or pinned_node(pod), []).append(pod)
        spec = _daemon_spec(daemon_set)
        wanted = 0
        for node in self._store.all(kinds.NODES):
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
        pods = self._store.owned(kinds.PODS, daemon_set)
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
        create_pod(self._store, kinds.DAEMON_SETS, daemon_set, labels=revision, spec=changes)

    def _delete(self, pod: JsonObject) -> None:
        namespace, name = key_of(pod)
        self._store.delete(kinds.PODS, name, namespace=namespace)

    def _report(self, daemon_set: JsonObject, wanted: int) -> None:
        pods = self._store.owned(kinds.PODS, daemon_set)
        self._store.patch_status(
            kinds.DAEMON_SETS,
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
