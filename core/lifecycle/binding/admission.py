"""Checks whether a pod may be bound to a node now, and names the objection if not."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from core.lifecycle.binding.eligibility import is_left_to_scheduler
from core.lifecycle.binding.node_fit import objection_of_node
from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.pod_affinity import is_attracted, is_repelled
from core.lifecycle.binding.spreading import keeps_skew
from core.model.node import Node
from core.model.pod import Pod
from core.reasons.binding import BindingReason

AWAITS_OTHERS = frozenset({BindingReason.TOPOLOGY_SPREAD, BindingReason.POD_AFFINITY})
"""Objections that the binding of other pods may remove; a pod with one is tried again after them."""


def objection(pod: Pod, node: Node, placed: PlacedPods) -> BindingReason | None:
    """Return what keeps the pod from being bound to the node, None if nothing does."""
    has_another = pod.nominated_node_name not in ("", node.name)  # kube-scheduler is making room for it there
    if has_another or is_left_to_scheduler(pod):
        return BindingReason.LEFT_TO_SCHEDULER
    found = objection_of_node(pod, node, placed)
    if found is not None:
        return found
    if not keeps_skew(pod, node, placed):
        return BindingReason.TOPOLOGY_SPREAD
    if is_repelled(pod, node, placed):
        return BindingReason.POD_ANTI_AFFINITY
    return None if is_attracted(pod, node, placed) else BindingReason.POD_AFFINITY


def outranking(waiting: Iterable[Pod], expected: Collection[str], node: Node, placed: PlacedPods) -> int | None:
    """Return the highest priority of the pods that no claim of ours expects and that would fit on this node, None for none.

    kube-scheduler would give them the room: if we bound pods of lower priority there, preemption would evict these.
    """
    found = (
        pod.spec.priority
        for pod in waiting
        if pod.key not in expected and not pod.is_gated and objection_of_node(pod, node, placed) is None
    )
    return max(found, default=None)
