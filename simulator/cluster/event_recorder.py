"""Records events of the cluster from the changes of its objects alone."""

from __future__ import annotations

from typing import Any, Final

from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from core.manifests.wire.api_resources import Resource
from simulator.cluster.objects import (
    annotations_of,
    controller_of,
    full_name,
    is_deleting,
    is_finished,
    is_ready,
    labels_of,
    name_of,
    namespace_of,
    node_of,
    phase_of,
    spec_of,
)
from simulator.cluster.store import Change, Store
from simulator.record import Recorder

DISRUPTION_REASON: Final = "fleetwright.dev/disruption-reason"
NODE_CLAIM: Final = "simulate.fleetwright.dev/nodeclaim"
"""Annotation of a Node: the claim of its instance, according to the table or the instance's tags when it joins."""

_SILENT: Final = (kinds.PODS, kinds.NODES, kinds.NAMESPACES, kinds.CSI_NODES)
_STATUS_RECORDED: Final = (kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES, kinds.NODE_CLAIMS)
"""Kinds whose status the functions write for users. The embedded controllers write the status of other kinds."""


class EventRecorder:
    """Listens to the store and emits the record's events for pods, nodes and applied objects."""

    def __init__(self, store: Store, recorder: Recorder) -> None:
        self._recorder = recorder
        store.watch(self._pod, kinds.PODS)
        store.watch(self._node, kinds.NODES)
        store.watch(self._other, *(resource for resource in kinds.ALL if resource not in _SILENT))

    def _pod(self, change: Change) -> None:
        old, new = change.old, change.new
        if old is None:
            owner = controller_of(change.obj)
            said = f"{owner['kind']}/{owner['name']}" if owner else ""
            self._recorder.emit("podCreated", pod=full_name(change.obj), owner=said, object=new)
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
