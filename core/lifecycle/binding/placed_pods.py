"""Indexes the pods of all nodes for the rules among pods; bindings are added as they are decided."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

from core.lifecycle.binding.pod_selection import PodSelection, affinity_selection
from core.model.node import Node
from core.model.pod import HostPort, Pod


class PlacedPods:
    """Tracks which pod is on which node.

    Attributes:
        nodes: Every node of the cluster, by name.
    """

    def __init__(self, nodes: Iterable[Node], pods: Iterable[Pod]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._on: dict[str, dict[str, Pod]] = {}
        self._used: dict[str, Counter[str]] = {}
        self._counts: dict[PodSelection, Counter[str]] = {}
        self._repelled: dict[tuple[PodSelection, str], Counter[str]] = {}
        self._domains: dict[Hashable, dict[str, str]] = {}
        for pod in pods:
            if pod.node_name and not pod.is_terminal:
                self.place(pod, pod.node_name)

    def place(self, pod: Pod, node: str) -> None:
        """Add a pod that is on the node, or is about to be."""
        self._on.setdefault(node, {})[pod.key] = pod
        self._change(pod, node, 1)

    def remove(self, pod: Pod, node: str) -> None:
        """Remove a pod that is not on the node after all."""
        if self._on.get(node, {}).pop(pod.key, None) is not None:
            self._change(pod, node, -1)

    def used(self, node: str) -> Mapping[str, int]:
        """Return what the pods of a node request."""
        return self._used.get(node, Counter())

    def host_ports(self, node: str) -> Iterator[HostPort]:
        """Return the host ports of the node that its pods occupy."""
        return (port for pod in self._on.get(node, {}).values() for port in pod.spec.host_ports)

    def counted(self, selection: PodSelection) -> Mapping[str, int]:
        """Return how many of the selected pods each node has."""
        found = self._counts.get(selection)
        if found is None:
            found = self._counts[selection] = Counter()
            for node, pods in self._on.items():
                count = sum(1 for pod in pods.values() if selection.counts(pod))
                if count:
                    found[node] = count
        return found

    def repelling(self, pod: Pod) -> Iterator[tuple[str, Mapping[str, int]]]:
        """Return topology key and nodes of the pods that have an anti-affinity to this one."""
        for (selection, key), nodes in self._repelled.items():
            if nodes and selection.selects(pod):
                yield key, nodes

    def value(self, node: str, key: str) -> str | None:
        """Return a node's label value; None where the label is absent or the node is gone."""
        found = self.nodes.get(node)
        return found.labels.get(key) if found is not None else None

    def remembered(self, key: Hashable, domains: Callable[[], dict[str, str]]) -> dict[str, str]:
        """Return node → domain as first computed for the key: nodes do not change while bindings are decided."""
        found = self._domains.get(key)
        if found is None:
            found = self._domains[key] = domains()
        return found

    def _change(self, pod: Pod, node: str, by: int) -> None:
        used = self._used.setdefault(node, Counter())
        for name, amount in pod.spec.requests.items():
            used[name] += by * amount
        for selection, counts in self._counts.items():
            if selection.counts(pod):
                _add(counts, node, by)
        for term in pod.spec.anti_affinity:
            nodes = self._repelled.setdefault((affinity_selection(pod, (term,)), term.topology_key), Counter())
            _add(nodes, node, by)


def _add(counts: Counter[str], node: str, by: int) -> None:
    counts[node] += by
    if not counts[node]:
        del counts[node]
