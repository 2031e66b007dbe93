"""Required affinity and anti-affinity among pods, both ways (kube-scheduler, InterPodAffinity)."""

from __future__ import annotations

from collections.abc import Mapping

from core.lifecycle.binding.placed_pods import PlacedPods
from core.lifecycle.binding.pod_selection import affinity_selection
from core.model.node import Node
from core.model.pod import Pod


def is_attracted(pod: Pod, node: Node, placed: PlacedPods) -> bool:
    """Whether each affinity term of the pod finds a pod in the node's domain, or the pod is the first of its group."""
    terms = pod.spec.affinity
    if not terms:
        return True
    if any(term.topology_key not in node.labels for term in terms):
        return False
    selection = affinity_selection(pod, terms)
    counted = placed.counted(selection)
    if all(_is_in_domain(counted, term.topology_key, node, placed) for term in terms):
        return True
    is_nobody_there = not any(placed.value(name, term.topology_key) for name in counted for term in terms)
    return is_nobody_there and selection.selects(pod)


def is_repelled(pod: Pod, node: Node, placed: PlacedPods) -> bool:
    """Whether the pod's anti-affinity excludes the node's domain, or that of a pod already there does."""
    for term in pod.spec.anti_affinity:
        if _is_in_domain(placed.counted(affinity_selection(pod, (term,))), term.topology_key, node, placed):
            return True
    return any(_is_in_domain(nodes, key, node, placed) for key, nodes in placed.repelling(pod))


def _is_in_domain(counted: Mapping[str, int], key: str, node: Node, placed: PlacedPods) -> bool:
    value = node.labels.get(key)
    return value is not None and any(placed.value(name, key) == value for name in counted)
