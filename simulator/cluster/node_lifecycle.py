"""The control plane's handling of nodes: notices dead ones, deletes those whose instance is gone, and their pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core.api.objects import JsonObject
from core.manifests.wire import api_resources as kinds
from simulator.cluster.objects import (
    CONTROLLER,
    controller_of,
    is_finished,
    is_ready,
    key_of,
    name_of,
    node_of,
    spec_of,
    status_of,
    uid_of,
    with_condition,
)
from simulator.cluster.store import Change, Store

NODE_GRACE: Final = timedelta(seconds=40)
"""From a kubelet's last heartbeat to NotReady (kube-controller-manager, node-monitor-grace-period)."""

CLOUD_CHECK_DELAY: Final = timedelta(seconds=5)
"""From NotReady to the deletion of a Node whose instance is terminated (cloud controller, node-monitor-period)."""

ORPHAN_QUARANTINE: Final = timedelta(seconds=40)
"""From a Node's deletion to that of its pods (pod garbage collector, quarantine)."""

NODE_LOST: Final = "nodeLost"

_HARD_EFFECTS: Final = ("NoSchedule", "NoExecute")
NOT_READY_TAINTS: Final = tuple({"key": "node.kubernetes.io/not-ready", "effect": e} for e in _HARD_EFFECTS)
UNREACHABLE_TAINTS: Final = tuple({"key": "node.kubernetes.io/unreachable", "effect": e} for e in _HARD_EFFECTS)


class NodeLifecycle:
    """The node controller, the cloud controller and the collector of orphaned pods."""

    def __init__(self, store: Store) -> None:
        self._store = store
        store.watch(self._node_changed, kinds.NODES)
        store.watch(self._pod_changed, kinds.PODS)

    def lose(self, node: JsonObject) -> None:
        """Stop the node's heartbeats: its instance is terminated."""
        self._store.clock.after(NODE_GRACE, lambda: self._mark_unreachable(node))

    def _mark_unreachable(self, lost: JsonObject) -> None:
        node = self._present(lost)
        if node is None:
            return
        now = self._store.clock.now()
        conditions = with_condition(node, "Ready", "Unknown", now, reason="NodeStatusUnknown")
        taints = [*(t for t in spec_of(node).get("taints") or () if t not in NOT_READY_TAINTS), *UNREACHABLE_TAINTS]
        body = {"spec": {"taints": taints}, "status": {"conditions": conditions}}
        self._store.patch(kinds.NODES, name_of(node), body)
        for pod in self._store.pods_on(name_of(node)):
            if is_ready(pod):
                unready = with_condition(pod, "Ready", "False", now, reason="NodeStatusUnknown")
                self._store.patch_status(kinds.PODS, pod, conditions=unready)
        self._store.clock.after(CLOUD_CHECK_DELAY, lambda: self._delete(lost))

    def _delete(self, lost: JsonObject) -> None:
        node = self._present(lost)
        if node is not None:
            self._store.delete(kinds.NODES, name_of(node))

    def _present(self, lost: JsonObject) -> JsonObject | None:
        node = self._store.find(kinds.NODES, name_of(lost))
        return node if node is not None and uid_of(node) == uid_of(lost) else None

    def _node_changed(self, change: Change) -> None:
        if change.new is None:
            name = name_of(change.obj)
            self._store.clock.after(ORPHAN_QUARANTINE, lambda: self._collect_orphans(name))

    def _pod_changed(self, change: Change) -> None:
        """Handle a pod that is bound to a node that no longer exists."""
        node = node_of(change.obj)
        is_new = change.old is None or not node_of(change.old)
        if change.new is not None and node and is_new and self._store.find(kinds.NODES, node) is None:
            self._store.clock.after(ORPHAN_QUARANTINE, lambda: self._collect_orphans(node))

    def _collect_orphans(self, node: str) -> None:
        """Delete the pods of a node that is gone. A DaemonSet's pod belongs to its node: it is not evicted by that."""
        if self._store.find(kinds.NODES, node) is not None:
            return
        for pod in self._store.pods_on(node):
            namespace, name = key_of(pod)
            owner = controller_of(pod)
            is_lost = not is_finished(pod) and (owner is None or owner["kind"] != "DaemonSet")
            cause = NODE_LOST if is_lost else ""
            self._store.delete(kinds.PODS, name, namespace=namespace, grace_seconds=0, by=CONTROLLER, cause=cause)


def is_unreachable(node: JsonObject) -> bool:
    """Whether the node's kubelet has been silent for too long."""
    return any(c["type"] == "Ready" and c["status"] == "Unknown" for c in status_of(node).get("conditions") or ())
