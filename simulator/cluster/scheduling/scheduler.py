"""The scheduler's loop: tries pending pods, and sets the condition of those that fit nowhere."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

import msgspec

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.objects import (
    Key,
    condition_of,
    is_active,
    is_deleting,
    is_finished,
    key_of,
    labels_of,
    node_of,
    spec_of,
    uid_of,
    with_condition,
)
from simulator.cluster.scheduling.cluster_state import ClusterState, shape_of
from simulator.cluster.scheduling.nominations import nominated_node
from simulator.cluster.scheduling.placement import Placement
from simulator.cluster.scheduling.pod_class import PodClass
from simulator.cluster.store import Change, Store
from simulator.cluster.volumes.binder import VolumeBinder

SCHEDULER_DELAY: Final = timedelta(milliseconds=200)
"""From a pod's creation, or a change that may make room, to the attempt."""

VERDICT_DELAY: Final = timedelta(milliseconds=100)
"""From a failed attempt to its condition: 0.3 s after creation, as measured on a real scheduler."""

_DIGITS: Final = re.compile(r"\d+")
_DEFAULT: Final = "default-scheduler"


class _Waiting(msgspec.Struct):
    arrival: int
    pod_class: PodClass

    @property
    def rank(self) -> tuple[bool, int, int]:
        """Pods that belong to one node first, then by priority, then in order of arrival."""
        return not self.pod_class.pinned, -self.pod_class.spec["priority"], self.arrival


class Scheduler:
    """Binds pods to nodes. Identical pods fail together: one failed attempt counts for all of them."""

    def __init__(self, store: Store, binder: VolumeBinder) -> None:
        self._store = store
        self._binder = binder
        self._state = ClusterState(store)
        self._waiting: dict[Key, _Waiting] = {}
        self._arrivals = 0
        self._is_due = False
        store.watch(self._pod_changed, kinds.PODS)
        store.watch(self._node_changed, kinds.NODES)
        store.watch(
            lambda _: self._wake(),
            kinds.PERSISTENT_VOLUMES,
            kinds.PERSISTENT_VOLUME_CLAIMS,
            kinds.STORAGE_CLASSES,
            kinds.CSI_NODES,
            kinds.NAMESPACES,
        )

    def objection(self, pod: JsonObject, node: str, *, but_for: tuple[str, str]) -> str:
        """Why the scheduler would not bind the pod to the node now, empty if it would; a taint of this key and effect aside."""
        if node not in self._state.nodes:
            return f"there is no node {node}"
        with self._state.without_taint(*but_for):
            return Placement(self._store, self._state, self._state.classes.of(pod), pod).why_not(node)

    def _pod_changed(self, change: Change) -> None:
        key = key_of(change.obj)
        if change.new is not None and _awaits_binding(change.new):
            self._await(key, change)
            return
        self._waiting.pop(key, None)
        self._state.nominations.note(key, None, "")
        if change.new is None or is_deleting(change.new) or is_finished(change.new):
            self._wake()

    def _await(self, key: Key, change: Change) -> None:
        pod, known = change.obj, self._waiting.get(key)
        if known is None:
            self._arrivals += 1
            self._waiting[key] = _Waiting(self._arrivals, self._state.classes.of(pod))
            self._wake()
        elif change.old is None or labels_of(change.old) != labels_of(pod) or change.old["spec"] != pod["spec"]:
            known.pod_class = self._state.classes.of(pod)
            self._wake()
        self._state.nominations.note(key, self._waiting[key].pod_class, nominated_node(pod))
        if change.old is not None and nominated_node(change.old) not in ("", nominated_node(pod)):
            self._wake()

    def _node_changed(self, change: Change) -> None:
        if change.new is not None and (change.old is None or shape_of(change.old) != shape_of(change.new)):
            self._wake()

    def _wake(self) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            self._store.clock.after(SCHEDULER_DELAY, self._try_all)

    def _try_all(self) -> None:
        """Try every pending pod in turn, on its nominated node first; a failed attempt removes the nomination."""
        self._is_due = False
        failed: dict[int, str] = {}
        verdicts: list[tuple[JsonObject, str]] = []
        bound, others_may_help = 0, False
        for pod, pod_class in self._queue():
            is_first, nominated = pod_class.number not in failed, nominated_node(pod)
            if is_first or nominated:
                placement = Placement(self._store, self._state, pod_class, pod)
                room = placement.best() if is_first else placement.nominated()
                if room is not None:
                    self._bind(pod, pod_class, room.node)
                    bound += 1
                    continue
            if is_first:
                failed[pod_class.number] = placement.explain()
            if nominated or _is_news(pod, failed[pod_class.number]):
                verdicts.append((pod, failed[pod_class.number]))
            others_may_help |= pod_class.counts_others
        if bound and others_may_help:
            self._wake()
        if verdicts:
            self._store.clock.after(VERDICT_DELAY, lambda: self._say(verdicts))

    def _queue(self) -> list[tuple[JsonObject, PodClass]]:
        waiting = sorted(self._waiting.items(), key=lambda entry: entry[1].rank)
        return [(self._store.get(kinds.PODS, key[1], key[0]), entry.pod_class) for key, entry in waiting]

    def _bind(self, pod: JsonObject, pod_class: PodClass, node: JsonObject) -> None:
        if pod_class.has_volumes:
            self._binder.bind_for(pod, node)
        namespace, name = key_of(pod)
        conditions = with_condition(pod, "PodScheduled", "True", self._store.clock.now())
        status = {"conditions": conditions, "nominatedNodeName": None}
        body = {"spec": {"nodeName": node["metadata"]["name"]}, "status": status}
        self._store.patch(kinds.PODS, name, body, namespace=namespace)

    def _say(self, verdicts: list[tuple[JsonObject, str]]) -> None:
        for pod, message in verdicts:
            namespace, name = key_of(pod)
            present = self._store.find(kinds.PODS, name, namespace)
            if present is None or uid_of(present) != uid_of(pod) or not _awaits_binding(present):
                continue
            now = self._store.clock.now()
            conditions = with_condition(present, "PodScheduled", "False", now, reason="Unschedulable", message=message)
            if not nominated_node(pod) or spec_of(pod).get("preemptionPolicy") == "Never":
                self._store.patch_status(kinds.PODS, present, conditions=conditions)
            else:
                self._store.patch_status(kinds.PODS, present, conditions=conditions, nominatedNodeName=None)


def _is_news(pod: JsonObject, message: str) -> bool:
    """Whether the verdict has other reasons than the pod's condition; a change of mere counts does not matter."""
    said = condition_of(pod, "PodScheduled").get("message", "")
    return _DIGITS.sub("", said) != _DIGITS.sub("", message)


def _awaits_binding(pod: JsonObject) -> bool:
    spec = pod["spec"]
    is_ours = spec["schedulerName"] == _DEFAULT and not spec.get("schedulingGates")
    return is_ours and not node_of(pod) and is_active(pod)
