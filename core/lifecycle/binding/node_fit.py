"""Checks whether a node by itself suits a pod (kube-scheduler: TaintToleration, NodeAffinity, Fit, NodePorts)."""

from __future__ import annotations

from core.lifecycle.binding.placed_pods import PlacedPods
from core.model.node import Node
from core.model.pod import LabelSelector, Pod
from core.model.values.taints import HELD, PREFER_NO_SCHEDULE
from core.reasons.binding import BindingReason


def objection_of_node(pod: Pod, node: Node, placed: PlacedPods) -> BindingReason | None:
    """Return what keeps the pod off the node, None if nothing does."""
    if not tolerates(pod, node):
        return BindingReason.UNTOLERATED_TAINT
    if not selects(pod, node):
        return BindingReason.NODE_AFFINITY
    used = placed.used(node.name)
    wanted = pod.spec.requests.items()
    if any(amount and used.get(name, 0) + amount > node.allocatable.get(name, 0) for name, amount in wanted):
        return BindingReason.NO_ROOM
    if any(mine.conflicts(taken) for mine in pod.spec.host_ports for taken in placed.host_ports(node.name)):
        return BindingReason.HOST_PORT_TAKEN
    return None


def tolerates(pod: Pod, node: Node) -> bool:
    """Whether the pod tolerates the node's taints, except the one with which we keep the scheduler off."""
    return all(
        any(toleration.tolerates(taint) for toleration in pod.spec.tolerations)
        for taint in node.taints
        if taint.effect != PREFER_NO_SCHEDULE and not taint.matches(HELD)
    )


def selects(pod: Pod, node: Node) -> bool:
    """Whether the pod's node selector and required node affinity admit the node; terms on node fields never match here."""
    spec = pod.spec
    if not LabelSelector(spec.node_selector).matches(node.labels):
        return False
    return not spec.required_terms or any(
        term.requirements and not term.uses_fields and LabelSelector(term.requirements).matches(node.labels)
        for term in spec.required_terms
    )
