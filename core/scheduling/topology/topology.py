"""Who must be near or far from whom: the groups of a snapshot and where their pods are now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from core.model.pod import DO_NOT_SCHEDULE
from core.model.values.requirements import Requirement
from core.scheduling.capacity.node_index import NodeSets
from core.scheduling.capacity.nodeclaim_template import Template, any_value
from core.scheduling.instance_types.type_index import bits
from core.scheduling.pods.pod_group import Rule, Shape
from core.scheduling.pods.preferences import Wishes
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.topology.group_selection import Selection
from core.scheduling.topology.topology_group import (
    AFFINITY,
    ANTI_AFFINITY,
    INVERSE,
    SPREAD,
    Group,
    Namespaces,
    NodeGate,
    affinity_group,
    spread_group,
)

Counts = dict[str, int]
_ANYWHERE = NodeGate()


class Topology:
    """The groups of a snapshot and what running pods count in each; shared by all plans made of it."""

    def __init__(
        self,
        shapes: Sequence[Shape],
        nodes: NodeSets,
        templates: Sequence[Template],
        namespaces: Namespaces,
        table: RequirementTable,
    ) -> None:
        self._nodes = nodes
        self.table = table
        self._templates = templates
        self._namespaces = namespaces
        self.groups: list[Group] = []
        self._numbers: dict[Group, int] = {}
        self._hard: set[int] = set()
        self._wishes: dict[tuple[int, Wishes], tuple[Rule, ...]] = {}
        self._asked = _asked_values(shapes)
        for shape in shapes:
            self._register(shape)
        for key in dict.fromkeys(group.key for group in self.groups):
            nodes.domains(key)
        self._selected: list[list[Shape]] = [[] for _ in self.groups]
        self._owners: list[list[Shape]] = [[] for _ in self.groups]
        Selection(self.groups, self._hard).assign(shapes, self._selected)
        for shape in shapes:
            for number in shape.avoids:
                self._owners[number].append(shape)
        self._base: dict[int, Counts] = {}
        self._node_domains: dict[int, Counts] = {}
        self._gates: dict[NodeGate, int] = {}
        self._claim_gates: dict[tuple[int, int, int], bool] = {}
        self._doubts: dict[tuple[int, int, int], bool] = {}
        self._universe: dict[int, tuple[str, ...]] = {}

    def rules(self, shape: Shape, wishes: Wishes) -> tuple[Rule, ...]:
        """The rules that pods of a shape obey at one step of their ladder, those that others impose included."""
        question = (shape.index, wishes)
        known = self._wishes.get(question)
        if known is None:
            own = (self._rule(group, shape) for group in self._groups_of(shape, wishes))
            imposed = (self._rule(self.groups[number], shape) for number in shape.repelled_by)
            known = self._wishes[question] = (*own, *imposed)
        return known

    def base(self, number: int) -> Counts:
        """Domain → how many running pods count there. A spread along shared domains also knows its empty ones."""
        known = self._base.get(number)
        if known is None:
            known = {}
            if self.groups[number].kind == SPREAD and not self.groups[number].is_hostname:
                known = dict.fromkeys((*self.universe(number), *self.node_domains(number)), 0)
            for shape in self.counted(number):
                for position, count in shape.bound.items():
                    domain = self.domain_at(number, position)
                    if domain is not None:
                        known[domain] = known.get(domain, 0) + count
            self._base[number] = known
        return known

    def is_hard(self, number: int) -> bool:
        """Whether any pod demands a group, and does not only prefer it."""
        return number in self._hard

    def counted(self, number: int) -> list[Shape]:
        """Shapes whose pods count: those that own an inverse group, those that any other group selects."""
        return self._owners[number] if self.groups[number].kind == INVERSE else self._selected[number]

    def domain_at(self, number: int, position: int) -> str | None:
        """Where a node lies for a group, None where it has no such label or the group does not look at it."""
        group = self.groups[number]
        domain = self._nodes.values(group.key)[position]
        return domain if domain is not None and self._looked_at(group.gate) >> position & 1 else None

    def node_domains(self, number: int) -> Counts:
        """Domain → how many nodes make it one, those on their way included."""
        known = self._node_domains.get(number)
        if known is None:
            group = self.groups[number]
            looked_at = self._looked_at(group.gate)
            domains = self._nodes.domains(group.key).items()
            counts = {d: (nodes & looked_at).bit_count() for d, nodes in domains if d is not None}
            known = self._node_domains[number] = {domain: count for domain, count in counts.items() if count}
        return known

    def universe(self, number: int) -> tuple[str, ...]:
        """Domains that the NodePools could make with nodes that the group looks at."""
        known = self._universe.get(number)
        if known is None:
            group = self.groups[number]
            gate = NodeGate(tolerations=group.gate.tolerations)
            asks = [self.table.conjunction(way) for way in group.gate.ways()]
            found: set[str] = set()
            for template in self._templates:
                if gate.admits(self.table[template.offered], template.taints, self.table.well_known):
                    for ask in asks:
                        found.update(self._makeable(template, ask, group.key))
            known = self._universe[number] = tuple(sorted(found))
        return known

    def _makeable(self, template: Template, ask: int, key: str) -> tuple[str, ...]:
        """The values of a label that a NodePool's nodes may have where something is asked of them.

        Where its requirements leave a label of its own open: the values that pods ask for, and what a node gets unasked.
        """
        reqs = self.table.narrowed(template.offered, ask) if ask != IMPOSSIBLE else IMPOSSIBLE
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

    def counts_claim(self, number: int, requirements: int, template: Template) -> bool:
        """Whether a group might look at a new node with these requirements."""
        gate = self.groups[number].gate
        if gate == _ANYWHERE:
            return True
        question = (number, requirements, template.index)
        known = self._claim_gates.get(question)
        if known is None:
            known = gate.admits(self.table[requirements], template.taints, self.table.well_known) and any(
                self._can_be(template, requirements, self.table.conjunction(way)) for way in gate.ways()
            )
            self._claim_gates[question] = known
        return known

    def _can_be(self, template: Template, requirements: int, ask: int) -> bool:
        """Whether any type is left where something is asked of a new node."""
        reqs = self.table.narrowed(requirements, ask) if ask != IMPOSSIBLE else IMPOSSIBLE
        return reqs != IMPOSSIBLE and template.types.mask(reqs) > 0

    def is_doubtful(self, number: int, requirements: int, template: Template) -> bool:
        """Whether a new node with these requirements might yet become one that the group does not look at."""
        gate = self.groups[number].gate
        if not gate.selector and not gate.terms:
            return False
        question = (number, requirements, template.index)
        known = self._doubts.get(question)
        if known is None:
            known = not any(all(self._is_sure(template, requirements, r) for r in way) for way in gate.ways())
            self._doubts[question] = known
        return known

    def _is_sure(self, template: Template, requirements: int, asked: Requirement) -> bool:
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

    def _looked_at(self, gate: NodeGate) -> int:
        """The nodes that a gate lets count, as a bit set of positions; -1 is all of them."""
        if gate == _ANYWHERE:
            return -1
        known = self._gates.get(gate)
        if known is None:
            views = self._nodes.views
            known = bits(view.index for view in views if gate.admits(view.offered, view.taints, frozenset()))
            self._gates[gate] = known
        return known

    def _register(self, shape: Shape) -> None:
        spec = shape.spec
        for group in self._groups_of(shape, _everything(shape)):
            self._number(group)
        for spread in shape.spreads:
            if spread.when_unsatisfiable == DO_NOT_SCHEDULE:
                self._hard.add(self._number(spread_group(spread, shape.spreads, spec, shape.namespace, shape.labels)))
        for kind, terms in (
            (AFFINITY, spec.affinity),
            (ANTI_AFFINITY, spec.anti_affinity),
            (INVERSE, spec.anti_affinity),
        ):
            for term in terms:
                group = affinity_group(kind, term, shape.namespace, shape.labels, self._namespaces)
                self._hard.add(self._number(group))
        inverse = (
            affinity_group(INVERSE, term, shape.namespace, shape.labels, self._namespaces)
            for term in spec.anti_affinity
        )
        shape.avoids = tuple(dict.fromkeys(self._number(group) for group in inverse))

    def _groups_of(self, shape: Shape, wishes: Wishes) -> list[Group]:
        near = [*wishes.affinity, *(weighted.term for weighted in wishes.preferred_affinity)]
        far = [*wishes.anti_affinity, *(weighted.term for weighted in wishes.preferred_anti_affinity)]
        groups = [spread_group(s, shape.spreads, shape.spec, shape.namespace, shape.labels) for s in wishes.spreads]
        for kind, terms in ((AFFINITY, near), (ANTI_AFFINITY, far)):
            groups += [affinity_group(kind, term, shape.namespace, shape.labels, self._namespaces) for term in terms]
        return list(dict.fromkeys(groups))

    def _rule(self, group: Group, shape: Shape) -> Rule:
        selects = group.selects(shape.namespace, shape.labels)
        return Rule(self._number(group), group.kind, group.key, group.is_hostname, selects)

    def _number(self, group: Group) -> int:
        number = self._numbers.get(group)
        if number is None:
            number = self._numbers[group] = len(self.groups)
            self.groups.append(group)
        return number


def _asked_values(shapes: Iterable[Shape]) -> dict[str, set[str]]:
    """Label key → the values that pods demand of their node."""
    found: dict[str, set[str]] = {}
    for shape in shapes:
        terms = [requirement for term in shape.spec.required_terms for requirement in term.requirements]
        for requirement in (*shape.spec.node_selector, *terms):
            if requirement.is_finite:
                found.setdefault(requirement.key, set()).update(requirement.values)
    return found


def _everything(shape: Shape) -> Wishes:
    """Every rule that the pod could have, preferences included."""
    spec = shape.spec
    return Wishes(
        terms=(),
        preferred_terms=(),
        spreads=shape.spreads,
        affinity=spec.affinity,
        anti_affinity=spec.anti_affinity,
        preferred_affinity=spec.preferred_affinity,
        preferred_anti_affinity=spec.preferred_anti_affinity,
        tolerations=(),
    )
