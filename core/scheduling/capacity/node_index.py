"""The nodes of a snapshot as bit sets of their positions: one operation asks all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration, first_untolerated
from core.scheduling.capacity.existing_node import NodeView
from core.scheduling.instance_types.type_index import bits
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.primitives.threshold_index import Thresholds


class NodeSets:
    """Answers about nodes as they are when planning begins; shared by all plans of a snapshot, each answer given once.

    Attributes:
        views: The nodes, by position.
        leaving: Nodes that are going and offer nothing.
        resting: Nodes that consolidation has to let rest.
    """

    def __init__(self, views: Sequence[NodeView], table: RequirementTable) -> None:
        self.views = views
        self._table = table
        self._all = (1 << len(views)) - 1
        self.leaving = bits(view.index for view in views if view.is_leaving)
        self.resting = bits(view.index for view in views if view.rests)
        self._by_room = [Thresholds(column) for column in zip(*(view.free for view in views), strict=True)]
        for column in self._by_room:
            column.prepare()
        self._values: dict[str, list[str | None]] = {}
        self._domains: dict[str, dict[str | None, int]] = {}
        self._suitable: dict[tuple[tuple[int, ...], tuple[Toleration, ...]], int] = {}

    def with_room(self, requests: Vector) -> int:
        """Nodes with so much room."""
        found = self._all
        for column, amount in zip(self._by_room, requests, strict=True):
            found &= column.at_least(amount)
        return found

    def values(self, key: str) -> Sequence[str | None]:
        """The value of a label on each node, None where it has none."""
        known = self._values.get(key)
        if known is None:
            known = self._values[key] = [view.domain(key) for view in self.views]
        return known

    def domains(self, key: str) -> Mapping[str | None, int]:
        """Value of a label → the nodes that have it; None stands for nodes without the label."""
        known = self._domains.get(key)
        if known is None:
            members: dict[str | None, list[int]] = {}
            for position, value in enumerate(self.values(key)):
                members.setdefault(value, []).append(position)
            known = self._domains[key] = {value: bits(found) for value, found in members.items()}
        return known

    def suitable(self, asks: tuple[int, ...], tolerations: tuple[Toleration, ...]) -> int:
        """Nodes that stay, whose taints are tolerated and whose labels are what any of the alternatives asks for."""
        question = (asks, tolerations)
        known = self._suitable.get(question)
        if known is None:
            offering = 0
            for ask in asks:
                offering |= self._offering(ask)
            known = self._suitable[question] = offering & self._tolerated(tolerations) & ~self.leaving
        return known

    def _tolerated(self, tolerations: Iterable[Toleration]) -> int:
        granted = tuple(tolerations)
        repelling = (v.index for v in self.views if v.taints and first_untolerated(v.taints, granted) is not None)
        return self._all & ~bits(repelling)

    def _offering(self, ask: int) -> int:
        found = self._all
        for key in self._table.needed(ask):
            found &= ~self.domains(key).get(None, 0)
        for key, asked in self._table[ask].items():
            found &= self._meeting(key, asked)
        return found

    def _meeting(self, key: str, asked: Requirement) -> int:
        found = 0
        for value, nodes in self.domains(key).items():
            if asked.tolerates_absence if value is None else asked.has(value):
                found |= nodes
        return found
