"""Which pods each topology group speaks of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core.scheduling.pods.pod_group import Shape
from core.scheduling.topology.topology_group import INVERSE, Group


class Selection:
    """Finds the groups that select a pod without asking each: most selectors name one label value."""

    def __init__(self, groups: Sequence[Group], hard: set[int]) -> None:
        self._groups = groups
        self._hard = hard
        self._by_label: dict[tuple[str, str], list[int]] = {}
        self._others: list[int] = []
        for number, group in enumerate(groups):
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

    def assign(self, shapes: Iterable[Shape], selected: list[list[Shape]]) -> None:
        """Tell each shape its groups, and each group, by number in `selected`, its shapes."""
        for shape in shapes:
            numbers = self._selecting(shape.namespace, shape.labels)
            for number in numbers:
                selected[number].append(shape)
            shape.selected_by = numbers
            shape.repelled_by = tuple(n for n in numbers if self._groups[n].kind == INVERSE)
            keys = {self._groups[n].key for n in numbers if n in self._hard and not self._groups[n].is_hostname}
            shape.pinned_keys = tuple(sorted(keys))

    def _selecting(self, namespace: str, pod_labels: Mapping[str, str]) -> tuple[int, ...]:
        likely = [n for item in pod_labels.items() for n in self._by_label.get(item, ())]
        likely += self._others
        return tuple(sorted(n for n in set(likely) if self._groups[n].selects(namespace, pod_labels)))
