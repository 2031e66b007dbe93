"""The binding subresource of pods, with the scheduler's own filters applied to each binding that others write."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from adapters.ports import ConflictError, DeniedError
from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.objects import PROGRAM, is_deleting, name_of, node_of, spec_of, uid_of, with_condition
from simulator.cluster.scheduling.scheduler import Scheduler
from simulator.cluster.store import Change, Store
from simulator.record import Recorder

CALL: Final = "kube:create pods/binding"
SETTLES_WITHIN: Final = timedelta(seconds=1)
"""How long a kubelet takes to see a change of its node, and the scheduler to see a binding."""

_HELD: Final = (labels.UNREGISTERED_TAINT, "NoSchedule")


class PodBindings:
    """Binds pods as the API server does, without checks, and records objections of the scheduler's filters.

    Emits `bindingAgainstRule` if the scheduler would not bind the pod there, if the kubelet may still reject it for a taint,
    and if a node is opened so soon that the scheduler may not have seen its last pod.
    """

    def __init__(self, store: Store, scheduler: Scheduler, recorder: Recorder) -> None:
        self._store = store
        self._scheduler = scheduler
        self._recorder = recorder
        self._opened_at: dict[str, datetime] = {}
        self._bound_at: dict[str, tuple[datetime, str]] = {}
        store.watch(self._node_changed, kinds.NODES)

    def bind(self, namespace: str, name: str, *, uid: str, node: str) -> None:
        """Bind a pod.

        Raises:
            NotFoundError: If there is no such pod.
            ConflictError: If it has a node, is being deleted, or is another pod.
            DeniedError: If it still has gates.
        """
        pod = self._store.get(kinds.PODS, name, namespace)
        if uid != uid_of(pod) or node_of(pod) or is_deleting(pod):
            raise ConflictError(CALL, f"pod {name} is already assigned to a node, is going, or is another one")
        if spec_of(pod).get("schedulingGates"):
            raise DeniedError(CALL, f"pod {name} has non-empty .spec.schedulingGates")
        objection = self._objection(pod, node)
        if objection:
            self._recorder.emit("bindingAgainstRule", pod=f"{namespace}/{name}", node=node, rule=objection)
        now = self._store.clock.now()
        self._bound_at[node] = now, f"{namespace}/{name}"
        status = {"conditions": with_condition(pod, "PodScheduled", "True", now), "nominatedNodeName": None}
        body = {"spec": {"nodeName": node}, "status": status}
        self._store.patch(kinds.PODS, name, body, namespace=namespace, by=PROGRAM)

    def _objection(self, pod: JsonObject, node: str) -> str:
        opened = self._opened_at.get(node)
        if opened is not None and self._store.clock.now() - opened < SETTLES_WITHIN:
            return "the kubelet may not know that a NoExecute taint is off"
        return self._scheduler.objection(pod, node, but_for=_HELD)

    def _node_changed(self, change: Change) -> None:
        if change.old is None or change.new is None:
            return
        name, now = name_of(change.new), self._store.clock.now()
        gone = _taints_of(change.old) - _taints_of(change.new)
        if any(effect == "NoExecute" for _, effect in gone):
            self._opened_at[name] = now
        at, pod = self._bound_at.get(name, (None, ""))
        if _HELD in gone and at is not None and now - at < SETTLES_WITHIN:
            self._recorder.emit(
                "bindingAgainstRule", pod=pod, node=name, rule="the scheduler may not know of the binding"
            )


def _taints_of(node: JsonObject) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in spec_of(node).get("taints") or ()}
