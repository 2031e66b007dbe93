"""Pods that are expected on a node before they are bound to it (`status.nominatedNodeName`)."""

from __future__ import annotations

from collections.abc import Mapping

from core.api.objects import JsonObject
from simulator.cluster.objects import Key, status_of
from simulator.cluster.scheduling.pod_class import PodClass


class Nominations:
    """Keeps room on the nominated node from pods of no higher priority, as kube-scheduler does. Only resources are kept."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[Key, PodClass]] = {}
        self._node_of: dict[Key, str] = {}

    def note(self, key: Key, pod_class: PodClass | None, node: str) -> None:
        """Record the nomination of a pending pod, or its absence; without a class, the pod is no longer pending."""
        former = self._node_of.pop(key, "")
        if former:
            self._by_node[former].pop(key)
        if node and pod_class is not None:
            self._node_of[key] = node
            self._by_node.setdefault(node, {})[key] = pod_class

    def reserved(self, node: str, key: Key, pod_class: PodClass) -> Mapping[str, int]:
        """Return the resources of the node that nominations of other pods reserve against this pod."""
        reserved: dict[str, int] = {}
        for other, found in self._by_node.get(node, {}).items():
            if other != key and found.spec["priority"] >= pod_class.spec["priority"]:
                for name, amount in found.requests.items():
                    reserved[name] = reserved.get(name, 0) + amount
        return reserved


def nominated_node(pod: JsonObject) -> str:
    """The node that the pod's status names, empty if none."""
    return str(status_of(pod).get("nominatedNodeName") or "")
