"""Kubelets: nodes join and become ready; their pods start, finish and stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

import msgspec

from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from simulator.cluster.controllers import NODE_GRACE, NOT_READY_TAINTS, NodeLifecycle
from simulator.cluster.store import (
    CONTROLLER,
    RUN_SECONDS,
    USER,
    AdmissionError,
    Change,
    Store,
    annotations_of,
    condition_of,
    controller_of,
    full_name,
    is_active,
    is_deleting,
    is_finished,
    is_ready,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    spec_of,
    status_of,
    timestamp,
    uid_of,
    with_condition,
)
from simulator.cluster.volumes import VolumeAttacher
from simulator.record import Recorder

# Records events of the cluster from the changes of its objects alone.


DISRUPTION_REASON: Final = "fleetwright.dev/disruption-reason"
NODE_CLAIM: Final = "simulate.fleetwright.dev/nodeclaim"
"""Annotation of a Node: the claim of its instance, according to the table or the instance's tags when it joins."""

_SILENT: Final = (resources.PODS, resources.NODES, resources.NAMESPACES, resources.CSI_NODES)
_STATUS_RECORDED: Final = (
    *(resources.NODE_POOLS, resources.EC2_NODE_CLASSES, resources.NODE_CLAIMS),
    resources.PROVISIONING_REQUESTS,
)
"""Kinds whose status the functions write for users. The embedded controllers write the status of other kinds."""


class EventRecorder:
    """Listens to the store and emits the record's events for pods, nodes and applied objects."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self._recorder = recorder
        store.watch(self._pod, resources.PODS)
        store.watch(self._node, resources.NODES)
        store.watch(self._other, *(resource for resource in resources.ALL if resource not in _SILENT))

    def _pod(self, change: Change) -> None:
        old, new = change.old, change.new
        if old is None:
            owner = controller_of(change.obj)
            owner_name = f"{owner['kind']}/{owner['name']}" if owner else ""
            self._recorder.emit("podCreated", pod=full_name(change.obj), owner=owner_name, object=new)
        if new is not None:
            self._pod_progress(old, new)
        if change.cause and old is not None and not is_deleting(old) and node_of(old) and not is_finished(old):
            self._recorder.emit("podEvicted", pod=full_name(old), node=node_of(old), by=change.cause)
        if new is None:
            self._recorder.emit("podDeleted", pod=full_name(change.obj), by=change.by)

    def _pod_progress(self, old: JsonObject | None, new: JsonObject) -> None:
        pod, node = full_name(new), node_of(new)
        if node and (old is None or not node_of(old)):
            self._recorder.emit("podBound", pod=pod, node=node)
        was_ready = old is not None and is_ready(old)
        if is_ready(new) and not was_ready:
            self._recorder.emit("podReady", pod=pod, node=node)
        if is_finished(new) and not (old is not None and is_finished(old)):
            self._recorder.emit("podFinished", pod=pod, phase=phase_of(new))
        elif was_ready and not is_ready(new):
            self._recorder.emit("podUnready", pod=pod, node=node)

    def _node(self, change: Change) -> None:
        old, new = change.old, change.new
        if new is None:
            self._recorder.emit("nodeDeleted", node=name_of(change.obj), by=change.by)
            return
        name = name_of(new)
        if old is None:
            provider_id = spec_of(new).get("providerID", "")
            claim = annotations_of(new).get(NODE_CLAIM, "")
            self._recorder.emit("nodeJoined", node=name, nodeClaim=claim, providerID=provider_id, object=new)
        was_ready = old is not None and is_ready(old)
        if is_ready(new) != was_ready:
            self._recorder.emit("nodeReady" if is_ready(new) else "nodeNotReady", node=name)
        if old is None:
            return
        self._taints(old, new, change.by)
        if labels_of(old) != labels_of(new) or annotations_of(old) != annotations_of(new):
            self._applied("Node", new, change.by)

    def _taints(self, old: JsonObject, new: JsonObject, by: str) -> None:
        before, after = _taints_of(old), _taints_of(new)
        for event, these, others, node in (("nodeUntainted", before, after, old), ("nodeTainted", after, before, new)):
            for key, effect in sorted(these.keys() - others.keys()):
                fields: dict[str, Any] = {"node": name_of(new), "key": key, "effect": effect, "by": by}
                if key == labels.DISRUPTED_TAINT:
                    fields["reason"] = annotations_of(node).get(DISRUPTION_REASON) or these[key, effect]
                self._recorder.emit(event, **fields)

    def _other(self, change: Change) -> None:
        if change.new is None:
            namespace, name = namespace_of(change.obj), name_of(change.obj)
            self._recorder.emit(
                "objectDeleted", kind=change.resource.kind, name=name, namespace=namespace, by=change.by
            )
        elif change.old is None or _news(change.resource, change.old) != _news(change.resource, change.new):
            self._applied(change.resource.kind, change.new, change.by)

    def _applied(self, kind: str, obj: JsonObject, by: str) -> None:
        self._recorder.emit(
            "objectApplied", kind=kind, name=name_of(obj), namespace=namespace_of(obj), by=by, object=obj
        )


def _taints_of(node: JsonObject) -> dict[tuple[str, str], str]:
    return {(t["key"], t["effect"]): t.get("value", "") for t in spec_of(node).get("taints") or ()}


def _news(resource: Resource, obj: JsonObject) -> JsonObject:
    """Return the object without the API server's counters in its metadata, and without a status that is not recorded."""
    metadata = {key: value for key, value in obj["metadata"].items() if key not in ("resourceVersion", "generation")}
    left_out = () if resource in _STATUS_RECORDED else ("status",)
    return {**{key: value for key, value in obj.items() if key not in left_out}, "metadata": metadata}


NODE_READY_DELAY: Final = timedelta(seconds=5)
"""From a node's registration to its readiness."""

POD_START_DELAY: Final = timedelta(seconds=2)
"""From binding, or the node's readiness, to a ready pod: the image is pulled, the container starts."""

MOUNT_RETRY_DELAY: Final = timedelta(seconds=2)
"""How often a pod checks whether its volume has been detached from another node."""

ADMISSION_RETRY: Final = timedelta(seconds=1)
"""How soon a kubelet registers again where a webhook refused its node."""

POD_EXIT_DELAY: Final = timedelta(seconds=2)
"""From a pod's deletion to its exit, unless its grace period is shorter."""

EBS_DRIVER: Final = "ebs.csi.aws.com"
EBS_VOLUMES_MAX: Final = 25
"""Volumes that the EBS driver attaches to one node: 28 slots of a Nitro instance less its root volume and interfaces."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with a kubelet.

    Attributes:
        is_unready: It reports that it is not ready.
        is_silent: It reports nothing.
        is_cut_off: Nothing reaches it: it starts and ends no pods.
    """

    is_unready: bool = False
    is_silent: bool = False
    is_cut_off: bool = False


WELL: Final = Trouble()


class Kubelets:
    """The kubelets of all running instances."""

    def __init__(
        self, store: Store, attacher: VolumeAttacher, lifecycle: NodeLifecycle, recorder: Recorder | None = None
    ) -> None:
        self._store = store
        self._attacher = attacher
        self._lifecycle = lifecycle
        self._recorder = recorder
        self._alive: dict[str, str] = {}
        self._exits: dict[str, timedelta] = {}
        self._troubles: dict[str, Trouble] = {}
        self._truths: dict[str, JsonObject] = {}
        self._stuck: set[str] = set()
        self._newcomers: list[Callable[[str], None]] = []
        store.watch(self._pod_changed, resources.PODS)
        store.watch(self._node_changed, resources.NODES)

    def join(self, node: JsonObject, node_claim: str, *, becomes_ready: bool = True) -> None:
        """Register a node that is not ready yet, and make it ready a little later."""
        metadata = node["metadata"]
        if node_claim:
            metadata = {**metadata, "annotations": {**(metadata.get("annotations") or {}), NODE_CLAIM: node_claim}}
        taints = [*(spec_of(node).get("taints") or ()), *NOT_READY_TAINTS]
        ready = {"type": "Ready", "status": "False", "reason": "KubeletNotReady"}
        status = {**status_of(node), "conditions": [ready]}
        try:
            made = self._register({**node, "metadata": metadata, "spec": {**spec_of(node), "taints": taints}}, status)
        except AdmissionError as error:
            again = max(error.wait, ADMISSION_RETRY)
            self._store.clock.after(again, lambda: self.join(node, node_claim, becomes_ready=becomes_ready))
            return
        if not becomes_ready:
            self._troubles[name_of(made)] = Trouble(is_unready=True)
        for troubled in [self._newcomers.pop(0)] if self._newcomers else []:
            troubled(name_of(made))
        self._store.clock.after(NODE_READY_DELAY, lambda: self._become_ready(made))

    def adopt(self, node: JsonObject) -> None:
        """Add a Node from a manifest as one that already runs."""
        status = dict(status_of(node))
        if not condition_of(node, "Ready"):
            status["conditions"] = with_condition(node, "Ready", "True", self._store.clock.now())
        self._finish_registration(self._register(node, status, USER))

    def lose(self, provider_id: str) -> None:
        """Stop the kubelet of a terminated instance."""
        lost = [name for name, alive_id in self._alive.items() if alive_id == provider_id]
        for name in lost:
            del self._alive[name]
            node = self._store.find(resources.NODES, name)
            if node is not None:
                self._lifecycle.lose(node)

    def trouble_next(self, count: int, troubled: Callable[[str], None]) -> None:
        """Call `troubled` with the name of each of the next `count` nodes that join."""
        self._newcomers += [troubled] * count

    def trouble(self, name: str, trouble: Trouble) -> None:
        """Change what is wrong with a node's kubelet; `WELL` ends it."""
        node = self._store.find(resources.NODES, name)
        if node is None or name not in self._alive:
            return
        before = self._troubles.get(name, WELL)
        self._troubles[name] = trouble
        if trouble.is_silent and not before.is_silent:
            self._store.clock.after(NODE_GRACE, lambda: self._note_silence(node, trouble))
        elif trouble.is_unready:
            self._lifecycle.note_unready(node, is_silent=False)
        elif trouble == WELL and before != WELL and self._lifecycle.note_ready(node):
            self._catch_up(name)

    def report(self, name: str, capacity: Mapping[str, str] | None, allocatable: Mapping[str, str] | None) -> None:
        """Let a kubelet report these amounts beside the true ones of other resources; None is the truth."""
        node = self._store.find(resources.NODES, name)
        if node is None:
            return
        truth = self._truths.setdefault(name, status_of(node))
        reported = {
            field: {**(truth.get(field) or {}), **(amounts or {})}
            for field, amounts in (("capacity", capacity), ("allocatable", allocatable))
        }
        gone = {
            field: dict.fromkeys(key for key in status_of(node).get(field) or {} if key not in amounts)
            for field, amounts in reported.items()
        }
        status = {field: {**amounts, **gone[field]} for field, amounts in reported.items()}
        self._store.patch(resources.NODES, name, {"status": status})
        if self._recorder is not None:
            self._recorder.emit("nodeReported", node=name, **reported)

    def hold(self, pods: Iterable[str]) -> None:
        """Do not end these pods, each `namespace/name`."""
        self._stuck.update(pods)

    def let_go(self, pods: Iterable[str]) -> None:
        """End these pods again, at once if they were to end."""
        for full in pods:
            self._stuck.discard(full)
            namespace, _, name = full.partition("/")
            pod = self._store.find(resources.PODS, name, namespace)
            if pod is not None and is_deleting(pod) and node_of(pod) in self._alive:
                self._exits.pop(uid_of(pod), None)
                self._plan_exit(pod)

    def revive(self, node: JsonObject) -> None:
        """Let the kubelet of an instance that runs serve its Node, which is back after a restore of the API server."""
        self._alive[name_of(node)] = spec_of(node).get("providerID", "")
        for pod in self._store.pods_on(name_of(node)):
            self._plan_exit(pod) if is_deleting(pod) else self._plan_start(pod)

    def forget(self, node: JsonObject) -> None:
        """A Node is back whose instance is gone: it has no kubelet, as the node controller notices."""
        self._lifecycle.lose(node)

    def _note_silence(self, node: JsonObject, trouble: Trouble) -> None:
        if self._troubles.get(name_of(node)) == trouble and name_of(node) in self._alive:
            self._lifecycle.note_unready(node, is_silent=True)

    def _catch_up(self, name: str) -> None:
        """Do what did not reach the kubelet meanwhile."""
        for pod in self._store.pods_on(name):
            if is_deleting(pod):
                self._exits.pop(uid_of(pod), None)
                self._plan_exit(pod)
            else:
                self._plan_start(pod)

    def _register(self, node: JsonObject, status: JsonObject, by: str = CONTROLLER) -> JsonObject:
        capacity = status.get("capacity") or status.get("allocatable") or {}
        status = {"allocatable": capacity, **status, "capacity": capacity}
        self._alive[name_of(node)] = spec_of(node).get("providerID", "")
        return self._store.create(resources.NODES, {**node, "status": status}, by=by)

    def _become_ready(self, joined: JsonObject) -> None:
        node = self._store.find(resources.NODES, name_of(joined))
        if node is None or uid_of(node) != uid_of(joined) or name_of(node) not in self._alive:
            return
        if self._troubles.get(name_of(node), WELL) != WELL:
            return
        conditions = with_condition(node, "Ready", "True", self._store.clock.now(), reason="KubeletReady")
        taints = [taint for taint in spec_of(node).get("taints") or () if taint not in NOT_READY_TAINTS]
        body = {"spec": {"taints": taints}, "status": {"conditions": conditions}}
        self._finish_registration(self._store.patch(resources.NODES, name_of(node), body))

    def _finish_registration(self, node: JsonObject) -> None:
        """The EBS driver makes itself known, and pods that were bound before start."""
        if self._store.find(resources.CSI_NODES, name_of(node)) is None:
            driver = {
                "name": EBS_DRIVER,
                "nodeID": spec_of(node).get("providerID", "").rpartition("/")[2],
                "topologyKeys": [labels.EBS_ZONE],
                "allocatable": {"count": EBS_VOLUMES_MAX},
            }
            self._store.create(
                resources.CSI_NODES, {"metadata": {"name": name_of(node)}, "spec": {"drivers": [driver]}}
            )
        zone = labels_of(node).get(labels.ZONE)
        if zone and labels.EBS_ZONE not in labels_of(node):
            self._store.patch(resources.NODES, name_of(node), {"metadata": {"labels": {labels.EBS_ZONE: zone}}})
        for pod in self._store.pods_on(name_of(node)):
            self._plan_start(pod)

    def _node_changed(self, change: Change) -> None:
        if change.new is None:
            self._alive.pop(name_of(change.obj), None)
            self._troubles.pop(name_of(change.obj), None)
            self._truths.pop(name_of(change.obj), None)
            if self._store.find(resources.CSI_NODES, name_of(change.obj)) is not None:
                self._store.delete(resources.CSI_NODES, name_of(change.obj))

    def _pod_changed(self, change: Change) -> None:
        if change.new is None:
            self._exits.pop(uid_of(change.obj), None)
            return
        node = self._store.find(resources.NODES, node_of(change.new)) if node_of(change.new) else None
        if node is None or name_of(node) not in self._alive:
            return
        if is_deleting(change.new):
            self._plan_exit(change.new)
        elif is_ready(node) and (change.old is None or not node_of(change.old)):
            self._plan_start(change.new)

    def _plan_start(self, pod: JsonObject) -> None:
        if is_active(pod) and not is_ready(pod):
            self._store.clock.after(POD_START_DELAY, lambda: self._start(pod))

    def _start(self, planned: JsonObject) -> None:
        pod = self._present(planned)
        if pod is None or not is_active(pod) or phase_of(pod) == "Running":
            return
        if not self._attacher.can_mount(pod):
            self._store.clock.after(MOUNT_RETRY_DELAY, lambda: self._start(planned))
            return
        now = self._store.clock.now()
        for kind in ("Initialized", "ContainersReady", "Ready"):
            conditions = with_condition(pod, kind, "True", now)
            pod = {**pod, "status": {**status_of(pod), "conditions": conditions}}
        fields: dict[str, Any] = {"phase": "Running", "startTime": timestamp(now)}
        self._store.patch_status(resources.PODS, pod, conditions=status_of(pod)["conditions"], **fields)
        seconds = _run_seconds(pod)
        if seconds is not None:
            self._store.clock.after(timedelta(seconds=seconds), lambda: self._finish(planned))

    def _finish(self, planned: JsonObject) -> None:
        pod = self._present(planned)
        if pod is None or not is_active(pod):
            return
        conditions = with_condition(pod, "Ready", "False", self._store.clock.now(), reason="PodCompleted")
        self._store.patch_status(resources.PODS, pod, phase="Succeeded", conditions=conditions)

    def _plan_exit(self, pod: JsonObject) -> None:
        """End the pod after its exit time; a shorter grace, even one that is set later, cuts that."""
        grace = timedelta(seconds=pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        delay = min(POD_EXIT_DELAY, grace)
        if self._exits.get(uid_of(pod), timedelta.max) > delay:
            self._exits[uid_of(pod)] = delay
            self._store.clock.after(delay, lambda: self._exit(pod))

    def _exit(self, planned: JsonObject) -> None:
        pod = self._present(planned)
        if pod is None or full_name(pod) in self._stuck:
            return
        namespace, name = key_of(pod)
        if not is_finished(pod) and pod["metadata"].get("finalizers"):
            conditions = with_condition(pod, "Ready", "False", self._store.clock.now(), reason="PodCompleted")
            self._store.patch_status(resources.PODS, pod, phase="Succeeded", conditions=conditions)
        self._store.delete(resources.PODS, name, namespace=namespace, grace_seconds=0)

    def _present(self, planned: JsonObject) -> JsonObject | None:
        """The pod as it is now, None if it, or its node's kubelet, is gone."""
        namespace, name = key_of(planned)
        pod = self._store.find(resources.PODS, name, namespace)
        if pod is None or uid_of(pod) != uid_of(planned) or node_of(pod) not in self._alive:
            return None
        return None if self._troubles.get(node_of(pod), WELL).is_cut_off else pod


def _run_seconds(pod: JsonObject) -> float | None:
    """Return how long the pod runs by its annotation, None for unlimited."""
    text = annotations_of(pod).get(RUN_SECONDS)
    return float(text) if text is not None else None
