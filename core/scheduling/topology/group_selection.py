"""Determines which pods each topology group selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core.scheduling.pods.pod_group import PodSignature
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.topology.topology_group import INVERSE, TopologyGroup


class GroupSelection:
    """Finds the groups that select a pod without checking each: most selectors name one label value."""

    def __init__(self, groups: Sequence[TopologyGroup], hard: set[TopologyGroupId]) -> None:
        self._groups = groups
        self._hard = hard
        self._by_label: dict[tuple[str, str], list[TopologyGroupId]] = {}
        self._others: list[TopologyGroupId] = []
        for position, group in enumerate(groups):
            number = TopologyGroupId(position)
            fixed = (
                next((r for r in group.selector.requirements if r.is_finite and r.values), None)
                if group.selector
                else None
            )
            if fixed is not None:
                for value in fixed.values:
                    self._by_label.setdefault((fixed.key, value), []).append(number)
            elif group.selector is not None:
                self._others.append(number)

    def assign(self, signatures: Iterable[PodSignature], selected: list[list[PodSignature]]) -> None:
        """Assign each signature its groups, and each group, by number in `selected`, its signatures."""
        for signature in signatures:
            numbers = self._selecting(signature.namespace, signature.labels)
            for number in numbers:
                selected[number].append(signature)
            signature.selected_by = numbers
            signature.repelled_by = tuple(n for n in numbers if self._groups[n].kind == INVERSE)
            keys = {self._groups[n].key for n in numbers if n in self._hard and not self._groups[n].is_hostname}
            signature.domain_keys = tuple(sorted(keys))

    def _selecting(self, namespace: str, pod_labels: Mapping[str, str]) -> tuple[TopologyGroupId, ...]:
        likely = [n for item in pod_labels.items() for n in self._by_label.get(item, ())]
        likely += self._others
        return tuple(sorted(n for n in set(likely) if self._groups[n].selects(namespace, pod_labels)))
