"""The domains of topology groups: existing and possible ones, and how many running pods count in each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from core.model.values.requirements import Requirement
from core.scheduling.capacity.node_index import NodeIndex
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate, any_value
from core.scheduling.pods.pod_group import PodSignature
from core.scheduling.primitives.bit_set import bits
from core.scheduling.primitives.handles import NodeMask, RequirementId, TopologyGroupId
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.topology.topology_group import ANY_NODE, SPREAD, TopologyGroup, TopologyNodeFilter

Counts = dict[str, int]
"""Domain → pods or nodes."""


class GroupDomains:
    """The domains of each group from existing nodes and NodePools; the same for all plans of a snapshot.

    Attributes:
        possible: Group → domains that NodePools could create with nodes that count for the group; sorted.
        of_nodes: Group → domain → how many nodes are in it, including launching ones.
        running: Group → domain → how many running pods count there. For a spread along shared domains, empty domains are
            included.
    """

    def __init__(
        self,
        groups: Sequence[TopologyGroup],
        counted: Callable[[TopologyGroupId], Sequence[PodSignature]],
        nodes: NodeIndex,
        templates: Sequence[NodeClaimTemplate],
        signatures: Iterable[PodSignature],
        table: RequirementTable,
    ) -> None:
        """Collect the domains of the snapshot.

        Args:
            groups: The groups, by number.
            counted: Signatures of the pods that count for a group.
            nodes: The existing nodes.
            templates: The NodePools.
            signatures: All signatures of the snapshot: values that they require of a label are possible domains.
            table: The numbers of requirements.
        """
        self._groups = groups
        self._nodes = nodes
        self._counted_nodes: Callable[[TopologyNodeFilter], NodeMask] = memo(partial(_counted_nodes, nodes))
        self.possible: Callable[[TopologyGroupId], tuple[str, ...]] = memo(
            partial(_possible, groups, templates, table, _demanded_values(signatures))
        )
        self.of_nodes: Callable[[TopologyGroupId], Counts] = memo(
            partial(_of_nodes, groups, nodes, self._counted_nodes)
        )
        at = partial(_at, groups, nodes, self._counted_nodes)
        self.running: Callable[[TopologyGroupId], Counts] = memo(
            partial(_running, groups, counted, at, self.possible, self.of_nodes)
        )

    def at(self, group: TopologyGroupId, position: int) -> str | None:
        """Return a node's domain for a group, None if it lacks the label or the group ignores it."""
        return _at(self._groups, self._nodes, self._counted_nodes, group, position)


def _counted_nodes(nodes: NodeIndex, node_filter: TopologyNodeFilter) -> NodeMask:
    """Return the nodes whose pods a group with this filter counts."""
    if node_filter == ANY_NODE:
        return NodeMask(-1)
    admitted = (n.index for n in nodes.nodes if node_filter.admits(n.offered, n.taints, frozenset()))
    return NodeMask(bits(admitted))


def _at(
    groups: Sequence[TopologyGroup],
    nodes: NodeIndex,
    looked_at: Callable[[TopologyNodeFilter], NodeMask],
    number: TopologyGroupId,
    position: int,
) -> str | None:
    group = groups[number]
    domain = nodes.values(group.key)[position]
    return domain if looked_at(group.node_filter) >> position & 1 else None


def _of_nodes(
    groups: Sequence[TopologyGroup],
    nodes: NodeIndex,
    looked_at: Callable[[TopologyNodeFilter], NodeMask],
    number: TopologyGroupId,
) -> Counts:
    group = groups[number]
    among = looked_at(group.node_filter)
    counts = {d: (members & among).bit_count() for d, members in nodes.domains(group.key).items() if d is not None}
    return {domain: count for domain, count in counts.items() if count}


def _running(
    groups: Sequence[TopologyGroup],
    counted: Callable[[TopologyGroupId], Sequence[PodSignature]],
    at: Callable[[TopologyGroupId, int], str | None],
    possible: Callable[[TopologyGroupId], tuple[str, ...]],
    of_nodes: Callable[[TopologyGroupId], Counts],
    number: TopologyGroupId,
) -> Counts:
    # The domain with the fewest pods of a spread may be empty; for other rules, domains without pods do not matter.
    knows_empty = groups[number].kind == SPREAD and not groups[number].is_hostname
    counts = dict.fromkeys((*possible(number), *of_nodes(number)), 0) if knows_empty else {}
    with_ending = groups[number].counts_ending
    for signature in counted(number):
        for position, count in signature.counted(with_ending=with_ending):
            domain = at(number, position)
            if domain is not None:
                counts[domain] = counts.get(domain, 0) + count
    return counts


def _possible(
    groups: Sequence[TopologyGroup],
    templates: Sequence[NodeClaimTemplate],
    table: RequirementTable,
    demanded: Mapping[str, set[str]],
    number: TopologyGroupId,
) -> tuple[str, ...]:
    group = groups[number]
    # The owner's node affinity is checked by types below, for each alternative; here only its tolerations.
    by_taints = TopologyNodeFilter(tolerations=group.node_filter.tolerations)
    alternatives = [table.conjunction(way) for way in group.node_filter.alternatives()]
    found: set[str] = set()
    for template in templates:
        if by_taints.admits(table[template.offered], template.taints, table.well_known):
            for alternative in alternatives:
                found.update(_possible_values(template, alternative, group.key, demanded.get(group.key, set())))
    return tuple(sorted(found))


def _possible_values(
    template: NodeClaimTemplate, alternative: RequirementId, key: str, demanded: set[str]
) -> tuple[str, ...]:
    """Return the values of a label that a NodePool's nodes may have if they meet the alternative.

    For a label that its requirements leave open, these are the values that pods require, and a node's default value.
    """
    types, table = template.types, template.types.table
    reqs = table.narrowed(template.offered, asked=alternative) if alternative != IMPOSSIBLE else IMPOSSIBLE
    if reqs == IMPOSSIBLE or not types.mask(reqs):
        return ()
    values = types.values(types.mask(reqs), reqs, key)
    required = table[reqs].get(key)
    if values or required is None or key in table.well_known:
        return values
    new_value = any_value(required)
    open_values = {value for value in demanded if required.has(value)}
    return tuple(sorted(open_values if new_value is None else open_values | {new_value}))


def _demanded_values(signatures: Iterable[PodSignature]) -> dict[str, set[str]]:
    """Return label key → the values that pods require of their node."""
    found: dict[str, set[str]] = {}
    for signature in signatures:
        terms: list[Requirement] = [r for term in signature.spec.required_terms for r in term.requirements]
        for requirement in (*signature.spec.node_selector, *terms):
            if requirement.is_finite:
                found.setdefault(requirement.key, set()).update(requirement.values)
    return found
