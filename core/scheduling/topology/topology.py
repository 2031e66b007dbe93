"""Who must be near or far from whom: the groups of a snapshot and where their pods are now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.model.pod import DO_NOT_SCHEDULE
from core.model.values.requirements import Requirement
from core.scheduling.capacity.node_index import NodeIndex
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate, any_value
from core.scheduling.instance_types.type_index import bits
from core.scheduling.pods.pod_group import PodSignature, TopologyRule
from core.scheduling.pods.preferences import PodDemands
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.topology.group_selection import GroupSelection
from core.scheduling.topology.topology_group import (
    AFFINITY,
    ANTI_AFFINITY,
    INVERSE,
    SPREAD,
    Namespaces,
    TopologyGroup,
    TopologyNodeFilter,
    affinity_group,
    spread_group,
)

Counts = dict[str, int]
_ANYWHERE = TopologyNodeFilter()


class Topology:
    """The groups of a snapshot and what running pods count in each; shared by all plans made of it."""

    def __init__(
        self,
        signatures: Sequence[PodSignature],
        nodes: NodeIndex,
        templates: Sequence[NodeClaimTemplate],
        namespaces: Namespaces,
        table: RequirementTable,
    ) -> None:
        self._nodes = nodes
        self.table = table
        self._templates = templates
        self._namespaces = namespaces
        self.groups: list[TopologyGroup] = []
        self._numbers: dict[TopologyGroup, int] = {}
        self._hard: set[int] = set()
        self._rules: dict[tuple[int, PodDemands], tuple[TopologyRule, ...]] = {}
        self._asked = _asked_values(signatures)
        for signature in signatures:
            self._register(signature)
        for key in dict.fromkeys(group.key for group in self.groups):
            nodes.domains(key)
        self._selected: list[list[PodSignature]] = [[] for _ in self.groups]
        self._owners: list[list[PodSignature]] = [[] for _ in self.groups]
        GroupSelection(self.groups, self._hard).assign(signatures, self._selected)
        for signature in signatures:
            for number in signature.avoids:
                self._owners[number].append(signature)
        self._base: dict[int, Counts] = {}
        self._node_domains: dict[int, Counts] = {}
        self._filtered_nodes: dict[TopologyNodeFilter, int] = {}
        self._counts_claim: dict[tuple[int, int, int], bool] = {}
        self._doubts: dict[tuple[int, int, int], bool] = {}
        self._possible_domains: dict[int, tuple[str, ...]] = {}

    def rules(self, signature: PodSignature, demands: PodDemands) -> tuple[TopologyRule, ...]:
        """The rules that pods of a shape obey at one step of their ladder, those that others impose included."""
        question = (signature.index, demands)
        known = self._rules.get(question)
        if known is None:
            own = (self._rule(group, signature) for group in self._groups_of(signature, demands))
            imposed = (self._rule(self.groups[number], signature) for number in signature.repelled_by)
            known = self._rules[question] = (*own, *imposed)
        return known

    def base(self, number: int) -> Counts:
        """Domain → how many running pods count there. A spread along shared domains also knows its empty ones."""
        known = self._base.get(number)
        if known is None:
            known = {}
            if self.groups[number].kind == SPREAD and not self.groups[number].is_hostname:
                known = dict.fromkeys((*self.possible_domains(number), *self.node_domains(number)), 0)
            for signature in self.counted(number):
                for position, count in signature.bound.items():
                    domain = self.domain_at(number, position)
                    if domain is not None:
                        known[domain] = known.get(domain, 0) + count
            self._base[number] = known
        return known

    def is_hard(self, number: int) -> bool:
        """Whether any pod demands a group, and does not only prefer it."""
        return number in self._hard

    def counted(self, number: int) -> list[PodSignature]:
        """Shapes whose pods count: those that own an inverse group, those that any other group selects."""
        return self._owners[number] if self.groups[number].kind == INVERSE else self._selected[number]

    def domain_at(self, number: int, position: int) -> str | None:
        """Where a node lies for a group, None where it has no such label or the group does not look at it."""
        group = self.groups[number]
        domain = self._nodes.values(group.key)[position]
        return domain if domain is not None and self._looked_at(group.node_filter) >> position & 1 else None

    def node_domains(self, number: int) -> Counts:
        """Domain → how many nodes make it one, those on their way included."""
        known = self._node_domains.get(number)
        if known is None:
            group = self.groups[number]
            looked_at = self._looked_at(group.node_filter)
            domains = self._nodes.domains(group.key).items()
            counts = {d: (nodes & looked_at).bit_count() for d, nodes in domains if d is not None}
            known = self._node_domains[number] = {domain: count for domain, count in counts.items() if count}
        return known

    def possible_domains(self, number: int) -> tuple[str, ...]:
        """Domains that the NodePools could make with nodes that the group looks at."""
        known = self._possible_domains.get(number)
        if known is None:
            group = self.groups[number]
            node_filter = TopologyNodeFilter(tolerations=group.node_filter.tolerations)
            alternatives = [self.table.conjunction(way) for way in group.node_filter.ways()]
            found: set[str] = set()
            for template in self._templates:
                if node_filter.admits(self.table[template.offered], template.taints, self.table.well_known):
                    for alternative in alternatives:
                        found.update(self._makeable(template, alternative, group.key))
            known = self._possible_domains[number] = tuple(sorted(found))
        return known

    def _makeable(self, template: NodeClaimTemplate, alternative: int, key: str) -> tuple[str, ...]:
        """The values of a label that a NodePool's nodes may have where something is asked of them.

        Where its requirements leave a label of its own open: the values that pods ask for, and what a node gets unasked.
        """
        reqs = self.table.narrowed(template.offered, alternative) if alternative != IMPOSSIBLE else IMPOSSIBLE
        mask = template.types.mask(reqs) if reqs != IMPOSSIBLE else 0
        if not mask:
            return ()
        values = template.types.values(mask, reqs, key)
        required = self.table[reqs].get(key)
        if values or required is None or key in self.table.well_known:
            return values
        unasked = any_value(required)
        asked = {value for value in self._asked.get(key, ()) if required.has(value)}
        return tuple(sorted(asked if unasked is None else asked | {unasked}))

    def counts_claim(self, number: int, requirements: int, template: NodeClaimTemplate) -> bool:
        """Whether a group might look at a new node with these requirements."""
        node_filter = self.groups[number].node_filter
        if node_filter == _ANYWHERE:
            return True
        question = (number, requirements, template.index)
        known = self._counts_claim.get(question)
        if known is None:
            known = node_filter.admits(self.table[requirements], template.taints, self.table.well_known) and any(
                self._can_be(template, requirements, self.table.conjunction(way)) for way in node_filter.ways()
            )
            self._counts_claim[question] = known
        return known

    def _can_be(self, template: NodeClaimTemplate, requirements: int, alternative: int) -> bool:
        """Whether any type is left where something is asked of a new node."""
        reqs = self.table.narrowed(requirements, alternative) if alternative != IMPOSSIBLE else IMPOSSIBLE
        return reqs != IMPOSSIBLE and template.types.mask(reqs) > 0

    def is_doubtful(self, number: int, requirements: int, template: NodeClaimTemplate) -> bool:
        """Whether a new node with these requirements might yet become one that the group does not look at."""
        node_filter = self.groups[number].node_filter
        if not node_filter.selector and not node_filter.terms:
            return False
        question = (number, requirements, template.index)
        known = self._doubts.get(question)
        if known is None:
            known = not any(all(self._is_sure(template, requirements, r) for r in way) for way in node_filter.ways())
            self._doubts[question] = known
        return known

    def _is_sure(self, template: NodeClaimTemplate, requirements: int, asked: Requirement) -> bool:
        """Whether every node that a claim may become meets one expression."""
        types, required = template.types, self.table[requirements].get(asked.key)
        if required is not None and required.intersection(asked) == required and required.values:
            return True
        mask = types.mask(requirements)
        values = types.values(mask, requirements, asked.key)
        without = mask & ~types.label_mask(Requirement(asked.key)) if values else mask
        if not values and required is not None and not required.is_finite and asked.key not in self.table.well_known:
            return required.intersection(asked) == required
        return all(asked.has(value) for value in values) and (not without or asked.tolerates_absence)

    def _looked_at(self, node_filter: TopologyNodeFilter) -> int:
        """The nodes that a gate lets count, as a bit set of positions; -1 is all of them."""
        if node_filter == _ANYWHERE:
            return -1
        known = self._filtered_nodes.get(node_filter)
        if known is None:
            existing_nodes = self._nodes.existing_nodes
            known = bits(
                node.index for node in existing_nodes if node_filter.admits(node.offered, node.taints, frozenset())
            )
            self._filtered_nodes[node_filter] = known
        return known

    def _register(self, signature: PodSignature) -> None:
        spec = signature.spec
        for group in self._groups_of(signature, _everything(signature)):
            self._number(group)
        for spread in signature.spreads:
            if spread.when_unsatisfiable == DO_NOT_SCHEDULE:
                self._hard.add(
                    self._number(spread_group(spread, signature.spreads, spec, signature.namespace, signature.labels))
                )
        for kind, terms in (
            (AFFINITY, spec.affinity),
            (ANTI_AFFINITY, spec.anti_affinity),
            (INVERSE, spec.anti_affinity),
        ):
            for term in terms:
                group = affinity_group(kind, term, signature.namespace, signature.labels, self._namespaces)
                self._hard.add(self._number(group))
        inverse = (
            affinity_group(INVERSE, term, signature.namespace, signature.labels, self._namespaces)
            for term in spec.anti_affinity
        )
        signature.avoids = tuple(dict.fromkeys(self._number(group) for group in inverse))

    def _groups_of(self, signature: PodSignature, demands: PodDemands) -> list[TopologyGroup]:
        near = [*demands.affinity, *(weighted.term for weighted in demands.preferred_affinity)]
        far = [*demands.anti_affinity, *(weighted.term for weighted in demands.preferred_anti_affinity)]
        groups = [
            spread_group(s, signature.spreads, signature.spec, signature.namespace, signature.labels)
            for s in demands.spreads
        ]
        for kind, terms in ((AFFINITY, near), (ANTI_AFFINITY, far)):
            groups += [
                affinity_group(kind, term, signature.namespace, signature.labels, self._namespaces) for term in terms
            ]
        return list(dict.fromkeys(groups))

    def _rule(self, group: TopologyGroup, signature: PodSignature) -> TopologyRule:
        selects = group.selects(signature.namespace, signature.labels)
        return TopologyRule(self._number(group), group.kind, group.key, group.is_hostname, selects)

    def _number(self, group: TopologyGroup) -> int:
        number = self._numbers.get(group)
        if number is None:
            number = self._numbers[group] = len(self.groups)
            self.groups.append(group)
        return number


def _asked_values(signatures: Iterable[PodSignature]) -> dict[str, set[str]]:
    """Label key → the values that pods demand of their node."""
    found: dict[str, set[str]] = {}
    for signature in signatures:
        terms = [requirement for term in signature.spec.required_terms for requirement in term.requirements]
        for requirement in (*signature.spec.node_selector, *terms):
            if requirement.is_finite:
                found.setdefault(requirement.key, set()).update(requirement.values)
    return found


def _everything(signature: PodSignature) -> PodDemands:
    """Every rule that the pod could have, preferences included."""
    spec = signature.spec
    return PodDemands(
        terms=(),
        preferred_terms=(),
        spreads=signature.spreads,
        affinity=spec.affinity,
        anti_affinity=spec.anti_affinity,
        preferred_affinity=spec.preferred_affinity,
        preferred_anti_affinity=spec.preferred_anti_affinity,
        tolerations=(),
    )
