"""The nodes of a snapshot as bit sets of their positions: one operation asks all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration, first_untolerated
from core.scheduling.capacity.existing_node import ExistingNode
from core.scheduling.instance_types.type_index import bits
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.primitives.threshold_index import ThresholdIndex


class NodeIndex:
    """Answers about nodes as they are when planning begins; shared by all plans of a snapshot, each answer given once.

    Attributes:
        views: The nodes, by position.
        leaving: Nodes that are going and offer nothing.
        resting: Nodes that consolidation has to let rest.
    """

    def __init__(self, existing_nodes: Sequence[ExistingNode], table: RequirementTable) -> None:
        self.existing_nodes = existing_nodes
        self._table = table
        self._all = (1 << len(existing_nodes)) - 1
        self.leaving = bits(node.index for node in existing_nodes if node.is_leaving)
        self.resting = bits(node.index for node in existing_nodes if node.rests)
        self._by_room = [ThresholdIndex(column) for column in zip(*(node.free for node in existing_nodes), strict=True)]
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
            known = self._values[key] = [node.domain(key) for node in self.existing_nodes]
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

    def suitable(self, alternatives: tuple[int, ...], tolerations: tuple[Toleration, ...]) -> int:
        """Nodes that stay, whose taints are tolerated and whose labels are what any of the alternatives asks for."""
        question = (alternatives, tolerations)
        known = self._suitable.get(question)
        if known is None:
            offering = 0
            for alternative in alternatives:
                offering |= self._offering(alternative)
            known = self._suitable[question] = offering & self._tolerated(tolerations) & ~self.leaving
        return known

    def _tolerated(self, tolerations: Iterable[Toleration]) -> int:
        granted = tuple(tolerations)
        repelling = (
            v.index for v in self.existing_nodes if v.taints and first_untolerated(v.taints, granted) is not None
        )
        return self._all & ~bits(repelling)

    def _offering(self, alternative: int) -> int:
        found = self._all
        for key in self._table.needed(alternative):
            found &= ~self.domains(key).get(None, 0)
        for key, asked in self._table[alternative].items():
            found &= self._meeting(key, asked)
        return found

    def _meeting(self, key: str, asked: Requirement) -> int:
        found = 0
        for value, nodes in self.domains(key).items():
            if asked.tolerates_absence if value is None else asked.has(value):
                found |= nodes
        return found
