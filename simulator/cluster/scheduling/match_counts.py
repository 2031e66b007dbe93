"""Counts a group's bound pods on each node, updated as pods are bound and deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from simulator.cluster.scheduling.pod_class import PodClass, Term
from simulator.cluster.selectors import selects_labels

NamespaceLabels = Callable[[str], Mapping[str, str]]
Placement = tuple[PodClass, str, bool]
"""A bound pod: its class, its node, whether it is being deleted."""


class MatchCounts:
    """Counts of pods by group and node. A group is counted from its first use on."""

    def __init__(self, namespace_labels: NamespaceLabels, placements: Callable[[], Iterable[Placement]]) -> None:
        self._namespace_labels = namespace_labels
        self._placements = placements
        self._groups: dict[tuple[bytes, bool], _Group] = {}
        self._repelling: dict[tuple[bytes, str], tuple[Term, dict[str, int]]] = {}

    def add(self, placement: Placement, change: int) -> None:
        """Count a pod in (`change` 1) or out (-1)."""
        pod_class, node, _ = placement
        for group in self._groups.values():
            group.add(placement, change)
        for term in pod_class.anti_affinity:
            _, counts = self._repelling.setdefault((term.group, term.topology_key), (term, {}))
            _change(counts, node, change)

    def on_nodes(self, terms: tuple[Term, ...], *, with_leaving: bool) -> Mapping[str, int]:
        """Return how many pods on each node all these terms select; pods that are being deleted count only if requested."""
        key = (b"\n".join(term.group for term in terms), with_leaving)
        group = self._groups.get(key)
        if group is None:
            group = _Group(lambda c: all(self.selects(t, c) for t in terms), with_leaving=with_leaving)
            for placement in self._placements():
                group.add(placement, 1)
            self._groups[key] = group
        return group.counts

    def repelling(self, pod_class: PodClass) -> list[tuple[Term, Mapping[str, int]]]:
        """The anti-affinity terms of bound pods that select such a pod, with the nodes of those pods."""
        entries = [self._repelling[key] for key in sorted(self._repelling)]
        return [(term, counts) for term, counts in entries if counts and self.selects(term, pod_class)]

    def selects(self, term: Term, pod_class: PodClass) -> bool:
        """Whether the term selects pods of the class."""
        if not selects_labels(term.selector, pod_class.labels):
            return False
        if pod_class.namespace in term.namespaces:
            return True
        return selects_labels(term.namespace_selector, self._namespace_labels(pod_class.namespace))

    def forget(self) -> None:
        """Drop the counts, since labels of namespaces have changed."""
        self._groups.clear()


class _Group:
    def __init__(self, selects: Callable[[PodClass], bool], *, with_leaving: bool) -> None:
        self.counts: dict[str, int] = {}
        self._selects = selects
        self._with_leaving = with_leaving
        self._known: dict[int, bool] = {}

    def add(self, placement: Placement, change: int) -> None:
        pod_class, node, is_leaving = placement
        if is_leaving and not self._with_leaving:
            return
        selected = self._known.get(pod_class.number)
        if selected is None:
            selected = self._known[pod_class.number] = self._selects(pod_class)
        if selected:
            _change(self.counts, node, change)


def _change(counts: dict[str, int], node: str, change: int) -> None:
    counts[node] = counts.get(node, 0) + change
    if not counts[node]:
        del counts[node]
