"""The topology groups of a snapshot, and the rules of pods that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from core.model.pod import DO_NOT_SCHEDULE
from core.scheduling.capacity.node_index import NodeIndex
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate
from core.scheduling.pods.pod_group import PodSignature, TopologyRule
from core.scheduling.pods.preferences import PodDemands
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import RequirementTable
from core.scheduling.topology.group_domains import GroupDomains
from core.scheduling.topology.group_selection import GroupSelection
from core.scheduling.topology.new_node_membership import NewNodeMembership
from core.scheduling.topology.topology_group import (
    AFFINITY,
    ANTI_AFFINITY,
    INVERSE,
    Namespaces,
    TopologyGroup,
    affinity_group,
    spread_group,
)


class Topology:
    """The groups of a snapshot; shared by all plans made of it.

    Attributes:
        groups: The groups, by number.
        domains: Their domains, and the counts of running pods.
        new_nodes: Whether a new node counts for a group.
        may_run_anywhere, may_run_at: The results of `PodSignature`, cached for all signatures together.
    """

    def __init__(
        self,
        signatures: Sequence[PodSignature],
        nodes: NodeIndex,
        templates: Sequence[NodeClaimTemplate],
        namespaces: Namespaces,
        table: RequirementTable,
    ) -> None:
        self.table = table
        self.groups: list[TopologyGroup] = []
        self._namespaces = namespaces
        self._numbers: dict[TopologyGroup, TopologyGroupId] = {}
        self._hard: set[TopologyGroupId] = set()
        self._rules: dict[tuple[int, PodDemands], tuple[TopologyRule, ...]] = {}
        for signature in signatures:
            self._register(signature)
        for key in dict.fromkeys(group.key for group in self.groups):
            nodes.domains(key)
        selected: list[list[PodSignature]] = [[] for _ in self.groups]
        owners: list[list[PodSignature]] = [[] for _ in self.groups]
        GroupSelection(self.groups, self._hard).assign(signatures, selected)
        for signature in signatures:
            for number in signature.avoids:
                owners[number].append(signature)
        self.counted: Callable[[TopologyGroupId], Sequence[PodSignature]] = partial(
            _counted, self.groups, owners, selected
        )
        self.domains = GroupDomains(self.groups, self.counted, nodes, templates, signatures, table)
        self.new_nodes = NewNodeMembership(self.groups, templates, table)
        self.may_run_anywhere: Callable[[PodSignature, str], bool] = memo(PodSignature.may_run_anywhere)
        self.may_run_at: Callable[[PodSignature, str, str], bool] = memo(PodSignature.may_run_at)

    def rules(self, signature: PodSignature, demands: PodDemands) -> tuple[TopologyRule, ...]:
        """Return the rules that pods obey at one relaxation step, including those that other pods impose."""
        question = (signature.index, demands)
        known = self._rules.get(question)
        if known is None:
            own = (self._rule(group, signature) for group in self._groups_of(signature, demands))
            imposed = (self._rule(self.groups[number], signature) for number in signature.repelled_by)
            known = self._rules[question] = (*own, *imposed)
        return known

    def is_hard(self, group: TopologyGroupId) -> bool:
        """Whether any pod requires the group, instead of only preferring it."""
        return group in self._hard

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

    def _number(self, group: TopologyGroup) -> TopologyGroupId:
        number = self._numbers.get(group)
        if number is None:
            number = self._numbers[group] = TopologyGroupId(len(self.groups))
            self.groups.append(group)
        return number


def _counted(
    groups: Sequence[TopologyGroup],
    owners: Sequence[Sequence[PodSignature]],
    selected: Sequence[Sequence[PodSignature]],
    group: TopologyGroupId,
) -> Sequence[PodSignature]:
    """Return signatures whose pods count: owners of an inverse group, and those selected by any other group."""
    return owners[group] if groups[group].kind == INVERSE else selected[group]


def _everything(signature: PodSignature) -> PodDemands:
    """Return every rule that the pod could have, including preferences."""
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
