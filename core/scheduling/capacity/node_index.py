"""Indexes the nodes of a snapshot as bit sets of their positions: one operation covers all of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from core.model.values.requirements import Requirement
from core.model.values.taints import Toleration, first_untolerated
from core.scheduling.capacity.existing_node import ExistingNode
from core.scheduling.primitives.bit_set import bits
from core.scheduling.primitives.handles import NodeMask, RequirementId
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.primitives.threshold_index import ThresholdIndex

Tolerations = tuple[Toleration, ...]
Domains = Mapping[str | None, NodeMask]
"""Value of a label → the nodes that have it; None stands for nodes without the label."""


class NodeIndex:
    """Queries over the initial state of the nodes; the same for all plans of a snapshot.

    Attributes:
        nodes: The nodes, by position.
        leaving: Nodes that are leaving and offer no room.
        recently_changed: Nodes whose pods changed within `consolidateAfter`.
        drained_later: Nodes that the stored target has yet to drain.
        values: Label key → its value on each node, None if the node has none.
        domains: Label key → its values, each with its nodes.
        suitable: Requirement alternatives and tolerations → staying nodes whose taints are tolerated and whose labels meet any
            of the alternatives.
    """

    def __init__(self, nodes: Sequence[ExistingNode], table: RequirementTable) -> None:
        self.nodes = nodes
        self._all = _every(nodes)
        self.leaving = NodeMask(bits(node.index for node in nodes if node.is_leaving))
        self.recently_changed = NodeMask(bits(node.index for node in nodes if node.is_recently_changed))
        self.drained_later = NodeMask(bits(node.index for node in nodes if node.is_drained_later))
        self._by_resource = [ThresholdIndex(column) for column in zip(*(node.free for node in nodes), strict=True)]
        for column in self._by_resource:
            column.prepare()
        self.values: Callable[[str], Sequence[str | None]] = memo(partial(_values, nodes))
        self.domains: Callable[[str], Domains] = memo(partial(_domains, self.values))
        self.suitable: Callable[[tuple[RequirementId, ...], Tolerations], NodeMask] = memo(
            partial(_suitable, nodes, self.domains, table)
        )

    def with_room(self, requests: Vector) -> NodeMask:
        """Return the nodes with room for the requests."""
        found = self._all
        for column, amount in zip(self._by_resource, requests, strict=True):
            found &= column.at_least(amount)
        return found


def _every(nodes: Sequence[ExistingNode]) -> NodeMask:
    return NodeMask((1 << len(nodes)) - 1)


def _values(nodes: Sequence[ExistingNode], key: str) -> Sequence[str | None]:
    return [node.domain(key) for node in nodes]


def _domains(values: Callable[[str], Sequence[str | None]], key: str) -> Domains:
    members: dict[str | None, list[int]] = {}
    for position, value in enumerate(values(key)):
        members.setdefault(value, []).append(position)
    return {value: NodeMask(bits(found)) for value, found in members.items()}


def _suitable(
    nodes: Sequence[ExistingNode],
    domains: Callable[[str], Domains],
    table: RequirementTable,
    alternatives: tuple[RequirementId, ...],
    tolerations: Tolerations,
) -> NodeMask:
    offering = NodeMask(0)
    for alternative in alternatives:
        offering |= _offering(nodes, domains, table, alternative)
    repelling = (
        n.index for n in nodes if n.is_leaving or (n.taints and first_untolerated(n.taints, tolerations) is not None)
    )
    return offering & ~NodeMask(bits(repelling))


def _offering(
    nodes: Sequence[ExistingNode],
    domains: Callable[[str], Domains],
    table: RequirementTable,
    alternative: RequirementId,
) -> NodeMask:
    """Return the nodes with the required labels."""
    found = _every(nodes)
    for key in table.needed(alternative):
        found &= ~domains(key).get(None, NodeMask(0))
    for key, asked in table[alternative].items():
        found &= _meeting(domains(key), asked)
    return found


def _meeting(domains: Domains, asked: Requirement) -> NodeMask:
    found = NodeMask(0)
    for value, nodes in domains.items():
        if asked.tolerates_absence if value is None else asked.has(value):
            found |= nodes
    return found
