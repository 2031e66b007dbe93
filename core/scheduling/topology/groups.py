"""Groups of pods under one spread, affinity or anti-affinity rule, and the domains in which they count."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import msgspec
from msgspec.structs import replace

from core import labels
from core.model.pod import (
    DO_NOT_SCHEDULE,
    HONOR,
    LabelSelector,
    NodeSelectorTerm,
    PodAffinityTerm,
    PodSpec,
    TopologySpread,
)
from core.model.snapshot import DaemonSet, Snapshot
from core.model.values.requirements import Requirement, Requirements
from core.model.values.taints import PREFER_NO_SCHEDULE, Taint, Toleration, first_untolerated
from core.pods import AFFINITIES_COUNT_TERMINATING, SPREADS_COUNT_TERMINATING, spread_selector, with_label_keys
from core.scheduling.existing_node import NodeIndex
from core.scheduling.new_node import NodeClaimTemplate, any_value
from core.scheduling.pods import (
    PodDemands,
    PodSignature,
    TopologyRule,
    is_of_shared_claim,
    shared_claim_label,
    usable_terms,
)
from core.scheduling.primitives import (
    IMPOSSIBLE,
    NodeMask,
    RequirementId,
    RequirementTable,
    TopologyGroupId,
    bits,
    memo,
)

# Topology groups: pods that share a rule share its counts.


SPREAD: Final = "spread"
AFFINITY: Final = "affinity"
ANTI_AFFINITY: Final = "anti-affinity"
INVERSE: Final = "inverse"
"""The inverse of a required anti-affinity: it counts the owners, and keeps the pods that they avoid away."""


class TopologyNodeFilter(msgspec.Struct, frozen=True, order=True):
    """The nodes that a spread constraint considers (`nodeAffinityPolicy`, `nodeTaintsPolicy`).

    Attributes:
        selector, terms: The owner's node selector and alternatives; both empty if the policy is Ignore.
        tolerations: The owner's tolerations, None if taints are ignored.
        keys: Labels without which a node is ignored, with all its pods (Kubernetes: every topology key of the owner).
    """

    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeSelectorTerm, ...] = ()
    tolerations: tuple[Toleration, ...] | None = None
    keys: tuple[str, ...] = ()

    def admits(self, offered: Requirements, taints: Iterable[Taint], well_known: frozenset[str]) -> bool:
        """Whether nodes with these labels and taints count."""
        if self.tolerations is not None and first_untolerated(_hard(taints), self.tolerations) is not None:
            return False
        for key in self.keys:
            if key not in well_known and (key not in offered or offered[key].operator == "DoesNotExist"):
                return False
        return any(
            all(offered.compatible(Requirements((requirement,)), allow_undefined=well_known) for requirement in way)
            for way in self.alternatives()
        )

    def alternatives(self) -> tuple[tuple[Requirement, ...], ...]:
        """Return the node selector combined with each alternative of the affinity; one empty alternative if neither counts."""
        return tuple((*self.selector, *term.requirements) for term in self.terms) or (self.selector,)


ANY_NODE: Final = TopologyNodeFilter()
"""Every node counts."""

Selection = tuple[tuple[str, ...] | None, LabelSelector | None]
"""Namespaces, None for all, and a selector, None for no pod."""


class TopologyGroup(msgspec.Struct, frozen=True, order=True):
    """One rule along one topology key, shared by all pods that have it. `namespaces` None stands for all.

    Attributes:
        further: What else a pod must meet to be selected: the other terms of a required affinity with several.
    """

    kind: str
    key: str
    namespaces: tuple[str, ...] | None
    selector: LabelSelector | None
    max_skew: int = 0
    min_domains: int = 0
    node_filter: TopologyNodeFilter = ANY_NODE
    further: tuple[Selection, ...] = ()

    @property
    def is_hostname(self) -> bool:
        """Whether each node is a domain of its own."""
        return self.key == labels.HOSTNAME

    @property
    def is_of_claim(self) -> bool:
        """Whether it holds the pods of an unbound claim together. kube-scheduler reads the claim, not where its pods are."""
        return self.kind == AFFINITY and self.selector is not None and is_of_shared_claim(self.selector)

    @property
    def counts_ending(self) -> bool:
        """Whether terminating pods count until they are gone."""
        return SPREADS_COUNT_TERMINATING if self.kind == SPREAD else AFFINITIES_COUNT_TERMINATING

    def selects(self, namespace: str, pod_labels: Mapping[str, str]) -> bool:
        """Whether the rule selects a pod."""
        parts = (
            ((self.namespaces, self.selector), *self.further) if self.further else ((self.namespaces, self.selector),)
        )
        for namespaces, selector in parts:
            if selector is None or (namespaces is not None and namespace not in namespaces):
                return False
            if not selector.matches(pod_labels):
                return False
        return True


def spread_group(
    spread: TopologySpread,
    spreads: Iterable[TopologySpread],
    spec: PodSpec,
    namespace: str,
    pod_labels: Mapping[str, str],
) -> TopologyGroup:
    """Return the group of a spread constraint; `spreads` are all of the owner's, its own or the cluster's defaults.

    Node filters use the owner's complete affinity even after relaxation.
    """
    others = {labels.normalized(s.topology_key) for s in spreads if s.when_unsatisfiable == DO_NOT_SCHEDULE}
    others -= {labels.normalized(spread.topology_key), labels.HOSTNAME}
    honors_affinity = spread.node_affinity_policy == HONOR
    node_filter = TopologyNodeFilter(
        selector=spec.node_selector if honors_affinity else (),
        terms=usable_terms(spec) if honors_affinity else (),
        tolerations=tuple(sorted(spec.tolerations)) if spread.node_taints_policy == HONOR else None,
        keys=tuple(sorted(others)) if spread.when_unsatisfiable == DO_NOT_SCHEDULE else (),
    )
    selector = spread_selector(spread, pod_labels)
    minimum = spread.min_domains or 0
    return TopologyGroup(
        SPREAD, labels.normalized(spread.topology_key), (namespace,), selector, spread.max_skew, minimum, node_filter
    )


def affinity_group(
    kind: str, term: PodAffinityTerm, namespace: str, pod_labels: Mapping[str, str], namespaces: Namespaces
) -> TopologyGroup:
    """Return the group of a preferred affinity term, of an anti-affinity term, or of the inverse of the latter."""
    return TopologyGroup(
        kind, labels.normalized(term.topology_key), *_selection(term, namespace, pod_labels, namespaces)
    )


def affinity_groups(
    terms: Iterable[PodAffinityTerm], namespace: str, pod_labels: Mapping[str, str], namespaces: Namespaces
) -> tuple[TopologyGroup, ...]:
    """Return the groups of a pod's required affinity, one for each topology key.

    Only pods that meet all terms count, for each of the keys (interpodaffinity/filtering.go, updateWithAffinityTerms).
    """
    terms = tuple(terms)
    if not terms:
        return ()
    selections = {_selection(term, namespace, pod_labels, namespaces) for term in terms}
    first, *further = sorted(selections, key=_order_of)
    keys = dict.fromkeys(labels.normalized(term.topology_key) for term in terms)
    return tuple(TopologyGroup(AFFINITY, key, *first, further=tuple(further)) for key in keys)


def _selection(
    term: PodAffinityTerm, namespace: str, pod_labels: Mapping[str, str], namespaces: Namespaces
) -> Selection:
    selector = with_label_keys(term.selector, pod_labels, term.match_label_keys, term.mismatch_label_keys)
    return namespaces.of_term(term, namespace), selector


def _order_of(selection: Selection) -> tuple[object, ...]:
    namespaces, selector = selection
    return namespaces is None, namespaces or (), selector is None, selector or LabelSelector()


class Namespaces:
    """The cluster's namespaces, for terms that select them. One that is only known from its pods has its name as label."""

    def __init__(self, by_name: Mapping[str, Mapping[str, str]]) -> None:
        self._labels = {
            name: {"kubernetes.io/metadata.name": name, **namespace_labels}
            for name, namespace_labels in sorted(by_name.items())
        }

    @classmethod
    def of(cls, snapshot: Snapshot) -> Namespaces:
        """Return the namespaces of the snapshot's pods and objects."""
        by_name: dict[str, Mapping[str, str]] = {name: {} for name in sorted({pod.namespace for pod in snapshot.pods})}
        by_name.update({namespace.name: namespace.labels for namespace in snapshot.namespaces})
        return cls(by_name)

    def of_term(self, term: PodAffinityTerm, pod_namespace: str) -> tuple[str, ...] | None:
        """Return the namespaces whose pods the term selects, None for all."""
        selector = term.namespace_selector
        if selector is None:
            return tuple(sorted(set(term.namespaces))) or (pod_namespace,)
        if not selector.requirements:
            return None
        selected = (name for name, namespace_labels in self._labels.items() if selector.matches(namespace_labels))
        return tuple(sorted({*term.namespaces, *selected}))


def _hard(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    return tuple(taint for taint in taints if taint.effect != PREFER_NO_SCHEDULE)


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
    if groups[number].is_of_claim:
        return {}
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
    values: set[str] = set()
    for template in templates:
        if by_taints.admits(table[template.offered], template.taints, table.well_known):
            for alternative in alternatives:
                values.update(_possible_values(template, alternative, group.key, demanded.get(group.key, set())))
    return tuple(sorted(values))


def _possible_values(
    template: NodeClaimTemplate, alternative: RequirementId, key: str, demanded: set[str]
) -> tuple[str, ...]:
    """Return the values of a label that a NodePool's nodes may have if they meet the alternative.

    For a label that its requirements leave open, these are the values that pods require, and a node's default value.
    """
    types, table = template.types, template.types.table
    reqs = table.narrowed(template.offered, required=alternative) if alternative != IMPOSSIBLE else IMPOSSIBLE
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
    values: dict[str, set[str]] = {}
    for signature in signatures:
        terms: list[Requirement] = [r for term in signature.spec.required_terms for r in term.requirements]
        for requirement in (*signature.spec.node_selector, *terms):
            if requirement.is_finite:
                values.setdefault(requirement.key, set()).update(requirement.values)
    return values


# Determines which pods each topology group selects.


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


# Determines whether topology groups count a new node, whose type and labels may still be open.


class NewNodeMembership:
    """Applies the groups' node filters to claims; the same for all plans of a snapshot."""

    def __init__(
        self, groups: Sequence[TopologyGroup], templates: Sequence[NodeClaimTemplate], table: RequirementTable
    ) -> None:
        self._groups = groups
        self._may_count: Callable[[TopologyGroupId, RequirementId, int], bool] = memo(
            partial(_may_count, groups, templates, table)
        )
        self._may_not_count: Callable[[TopologyGroupId, RequirementId, int], bool] = memo(
            partial(_may_not_count, groups, templates)
        )

    def counts(self, group: TopologyGroupId, reqs: RequirementId, template: NodeClaimTemplate) -> bool:
        """Whether a new node with these requirements might count for a group."""
        # Most groups count any node, and each is asked for each set of requirements: a tenth of the time of a plan.
        return self._groups[group].node_filter == ANY_NODE or self._may_count(group, reqs, template.index)

    def is_uncertain(self, group: TopologyGroupId, reqs: RequirementId, template: NodeClaimTemplate) -> bool:
        """Whether a new node with these requirements might still not count for the group."""
        # As above: another tenth.
        node_filter = self._groups[group].node_filter
        is_open = not node_filter.selector and not node_filter.terms
        return not is_open and self._may_not_count(group, reqs, template.index)


def _may_count(
    groups: Sequence[TopologyGroup],
    templates: Sequence[NodeClaimTemplate],
    table: RequirementTable,
    group: TopologyGroupId,
    reqs: RequirementId,
    index: int,
) -> bool:
    template, node_filter = templates[index], groups[group].node_filter
    return node_filter.admits(table[reqs], template.taints, table.well_known) and any(
        _can_be(template, reqs, table.conjunction(way)) for way in node_filter.alternatives()
    )


def _can_be(template: NodeClaimTemplate, reqs: RequirementId, alternative: RequirementId) -> bool:
    """Whether any type of a new node can meet the alternative."""
    if alternative == IMPOSSIBLE:
        return False
    narrowed = template.types.table.narrowed(reqs, required=alternative)
    return narrowed != IMPOSSIBLE and template.types.mask(narrowed) > 0


def _may_not_count(
    groups: Sequence[TopologyGroup],
    templates: Sequence[NodeClaimTemplate],
    group: TopologyGroupId,
    reqs: RequirementId,
    index: int,
) -> bool:
    template, node_filter = templates[index], groups[group].node_filter
    return not any(
        all(_is_sure(template, reqs, requirement) for requirement in way) for way in node_filter.alternatives()
    )


def _is_sure(template: NodeClaimTemplate, reqs: RequirementId, expression: Requirement) -> bool:
    """Whether every possible node of a claim meets the expression."""
    types, table = template.types, template.types.table
    required = table[reqs].get(expression.key)
    if required is not None and required.operator == "In" and required.intersection(expression) == required:
        return True
    if required is not None and not required.is_finite and expression.key not in table.well_known:
        return required.intersection(expression) == required
    without = table.narrowed(reqs, required=table.conjunction((Requirement.of(expression.key, "DoesNotExist"),)))
    may_lack = without != IMPOSSIBLE and types.mask(without) > 0
    values = types.values(types.mask(reqs), reqs, expression.key)
    return all(expression.has(value) for value in values) and (expression.tolerates_absence or not may_lack)


# The topology groups of a snapshot, and the rules of pods that follow from them.


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
        daemons: Sequence[DaemonSet] = (),
    ) -> None:
        self.table = table
        self.groups: list[TopologyGroup] = []
        self._namespaces = namespaces
        self._numbers: dict[TopologyGroup, TopologyGroupId] = {}
        self._hard: set[TopologyGroupId] = set()
        self._rules: dict[tuple[int, int], tuple[TopologyRule, ...]] = {}
        self._daemons = daemons
        for signature in signatures:
            self._register(signature)
            self._meet_daemons(signature)
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

    def rules(self, signature: PodSignature, number: int, demands: PodDemands) -> tuple[TopologyRule, ...]:
        """Return the rules that pods obey at the relaxation step of this number, including those that other pods impose."""
        question = (signature.index, number)
        rules = self._rules.get(question)
        if rules is None:
            of_affinity = self._affinity_of(signature, demands)
            together = tuple(map(self._number, of_affinity)) if len(of_affinity) > 1 else ()
            own_rules = (
                self._rule(group, signature, together if group in of_affinity else (), of_affinity=group in of_affinity)
                for group in self._groups_of(signature, demands)
            )
            imposed = (self._rule(self.groups[number], signature) for number in signature.repelled_by)
            rules = self._rules[question] = (*own_rules, *imposed)
        return rules

    def _meet_daemons(self, signature: PodSignature) -> None:
        """Record which DaemonSets' pods on a new node the pods must be near or away from.

        kube-scheduler counts these pods like any others; they come with the node, and are neither pending nor running yet.
        """
        if not self._daemons:
            return
        near, away = [], []
        affinity = self._affinity_of(signature, _everything(signature))
        apart = [self.groups[number] for number in signature.avoids]
        for position, daemon in enumerate(self._daemons):
            if affinity and affinity[0].selects(daemon.namespace, daemon.labels):
                near.append(position)
            theirs = (self._of_anti_affinity(t, daemon.namespace, daemon.labels) for t in daemon.spec.anti_affinity)
            keys = {group.key for group in apart if group.selects(daemon.namespace, daemon.labels)}
            keys |= {group.key for group in theirs if group.selects(signature.namespace, signature.labels)}
            if keys:
                away.append((position, tuple(sorted(keys))))
        signature.daemons_near, signature.daemons_away = tuple(near), tuple(away)

    def _of_anti_affinity(self, term: PodAffinityTerm, namespace: str, pod_labels: Mapping[str, str]) -> TopologyGroup:
        return affinity_group(ANTI_AFFINITY, term, namespace, pod_labels, self._namespaces)

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
        apart = [self._of_anti_affinity(term, signature.namespace, signature.labels) for term in spec.anti_affinity]
        inverse = [replace(group, kind=INVERSE) for group in apart]
        near = self._affinity_of(signature, _everything(signature))
        self._hard.update(map(self._number, (*near, *_groups_of_claims(signature), *apart, *inverse)))
        signature.avoids = tuple(dict.fromkeys(map(self._number, inverse)))

    def _groups_of(self, signature: PodSignature, demands: PodDemands) -> list[TopologyGroup]:
        near = [weighted.term for weighted in demands.preferred_affinity]
        far = [*demands.anti_affinity, *(weighted.term for weighted in demands.preferred_anti_affinity)]
        groups = [
            spread_group(s, signature.spreads, signature.spec, signature.namespace, signature.labels)
            for s in demands.spreads
        ]
        groups += self._affinity_of(signature, demands)
        groups += _groups_of_claims(signature)
        for kind, terms in ((AFFINITY, near), (ANTI_AFFINITY, far)):
            groups += [
                affinity_group(kind, term, signature.namespace, signature.labels, self._namespaces) for term in terms
            ]
        return list(dict.fromkeys(groups))

    def _affinity_of(self, signature: PodSignature, demands: PodDemands) -> tuple[TopologyGroup, ...]:
        return affinity_groups(demands.affinity, signature.namespace, signature.labels, self._namespaces)

    def _rule(
        self,
        group: TopologyGroup,
        signature: PodSignature,
        together: tuple[TopologyGroupId, ...] = (),
        *,
        of_affinity: bool = False,
    ) -> TopologyRule:
        selects = group.selects(signature.namespace, signature.labels)
        by_daemons = of_affinity and bool(signature.daemons_near)
        return TopologyRule(
            self._number(group), group.kind, group.key, group.is_hostname, selects, together, by_daemons
        )

    def _number(self, group: TopologyGroup) -> TopologyGroupId:
        number = self._numbers.get(group)
        if number is None:
            number = self._numbers[group] = TopologyGroupId(len(self.groups))
            self.groups.append(group)
        return number


def _groups_of_claims(signature: PodSignature) -> Iterable[TopologyGroup]:
    """Return a zonal affinity to all pods that share an unbound claim: the first decides the zone of the volume."""
    for name in signature.shared_claims:
        selector = LabelSelector((Requirement(shared_claim_label(name), True),))
        yield TopologyGroup(AFFINITY, labels.ZONE, (signature.namespace,), selector)


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
