"""Holds a new node to one value of every topology key that a rule about its pods speaks of.

Karpenter leaves such keys open where it can and then cannot say where the pod counts. Here a node's zone is decided with
the first pod that any hard rule concerns, so every later count is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from core.model.values.requirements import Requirement
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate, any_value
from core.scheduling.instance_types.min_values import unmet
from core.scheduling.pods.pod_group import PendingGroup, PodSignature, RelaxationStep, TopologyRule
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.topology.domain_counts import DomainCounts
from core.scheduling.topology.topology import Topology
from core.scheduling.topology.topology_group import AFFINITY, SPREAD

_NOT_FOR_SALE = 1 << 62
_NO_MIN_VALUES: Final[Mapping[str, int]] = {}
_WHOLE = 1000
"""A pod that can go to one value only weighs so much; one with n values an n-th of it."""


class ClaimDraft(NamedTuple):
    """A claim as it might become: requirements, the types that limits leave, and what all its pods request.

    Attributes:
        min_values: Label key → how many distinct values the types that are left must have.
    """

    template: NodeClaimTemplate
    reqs: int
    allowed: int
    total: Vector
    min_values: Mapping[str, int] = _NO_MIN_VALUES

    @property
    def mask(self) -> int:
        """Types that are left, room aside."""
        return self.template.types.mask(self.reqs) & self.allowed

    @property
    def is_possible(self) -> bool:
        """Whether any type is left that has room."""
        return self.reqs != IMPOSSIBLE and self.template.types.fits(self.mask, self.total)

    @property
    def price(self) -> int:
        """The lowest price among the types that are left; beyond all prices where none is."""
        found = self.template.types.cheapest(self.mask, self.reqs) if self.reqs != IMPOSSIBLE else None
        return _NOT_FOR_SALE if found is None else found

    def narrowed(self, reqs: int) -> ClaimDraft:
        """The same with other requirements."""
        return ClaimDraft(self.template, reqs, self.allowed, self.total, self.min_values)

    def held_to(self, allowed: int) -> ClaimDraft:
        """The same with these types only."""
        return ClaimDraft(self.template, self.reqs, allowed, self.total, self.min_values)

    def demanding(self, min_values: Mapping[str, int]) -> ClaimDraft:
        """The same with minValues."""
        return ClaimDraft(self.template, self.reqs, self.allowed, self.total, min_values)

    def undemanding(self) -> ClaimDraft:
        """The same without minValues."""
        return ClaimDraft(self.template, self.reqs, self.allowed, self.total)

    def missing_values(self) -> dict[str, int]:
        """Label key → how many distinct values are left, for each key that has too few for minValues."""
        types = self.template.types
        return unmet(types, types.survivors(self.mask, self.total), self.min_values) if self.min_values else {}


_Preference = tuple[int, int, int, int, str]


@dataclass(eq=False, slots=True, frozen=True)
class _PreferenceGroups:
    """The groups that give pods a reason to prefer one value of a key to another.

    Attributes:
        spreads: Spread constraints of their own.
        crowds: Those, of anybody, that count them.
        ties: Affinities and anti-affinities, of their own and of others.
    """

    spreads: tuple[int, ...]
    crowds: tuple[int, ...]
    ties: tuple[int, ...]


class DomainChoice:
    """Chooses values for one plan."""

    def __init__(self, topology: Topology, domain_counts: DomainCounts, pending_groups: Iterable[PendingGroup]) -> None:
        self._topology = topology
        self._domain_counts = domain_counts
        self._table: RequirementTable = topology.table
        self._concerned: dict[int, list[PendingGroup]] = {}
        self._open_values: dict[tuple[int, int, str], tuple[str, ...]] = {}
        self._bonds: dict[tuple[int, str], _PreferenceGroups] = {}
        self._prices: dict[tuple[int, int, int, str, str], int] = {}
        for pending_group in pending_groups:
            for number in _groups_of(pending_group):
                self._concerned.setdefault(number, []).append(pending_group)

    def pin(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep) -> int | None:
        """The first choice that leaves as many types as minValues wants, or None where no choice will do."""
        return next((c.reqs for c in self.choices(draft, signature, step, step.keys) if not c.missing_values()), None)

    def choices(
        self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep, keys: tuple[str, ...]
    ) -> Iterator[ClaimDraft]:
        """The draft narrowed to one value of each of the keys in every way that the rules admit, the best first."""
        if not keys:
            yield draft
            return
        for value in self.options(draft, signature, step, keys[0]):
            narrowed = draft
            if value is not None and self._table.single(draft.reqs, keys[0]) != value:
                narrowed = draft.narrowed(self._table.with_value(draft.reqs, keys[0], value))
                if not narrowed.is_possible:
                    continue
            yield from self.choices(narrowed, signature, step, keys[1:])

    def options(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep, key: str) -> list[str | None]:
        """Values that every rule admits, the best first; None alone where the node will not have the label."""
        rules = [rule for rule in step.zone_rules if rule.key == key]
        single = self._table.single(draft.reqs, key)
        if single is not None:
            return [single] if self._admitted(rules, single, signature) else []
        values = draft.template.types.values(draft.mask, draft.reqs, key)
        if not values:
            label = self._table[draft.reqs].get(key)
            if label is not None and not label.is_finite and key not in self._table.well_known:
                return self._open_label(rules, label, signature)
            return [None] if self._admitted(rules, None, signature) else []
        admitted = [value for value in values if self._admitted(rules, value, signature)]
        if len(admitted) > 1:
            admitted.sort(key=self._preference(draft, signature, step, key))
        return [*admitted]

    def _admitted(self, rules: Iterable[TopologyRule], value: str | None, signature: PodSignature) -> bool:
        for rule in rules:  # noqa: SIM110 - a generator takes twice as long, and this is asked of every value
            if not self._domain_counts.admits(rule, value, signature):
                return False
        return True

    def _open_label(
        self, rules: Sequence[TopologyRule], label: Requirement, signature: PodSignature
    ) -> list[str | None]:
        """For a label of the NodePool's own that it leaves open: the values in use, the emptiest first, or else a new one.

        A new value is a new domain, which makes spreads less even: only where a hard rule admits none of the others.
        """
        counts = [self._domain_counts.of(rule.group) for rule in rules]
        used = sorted({value for found in counts for value in found})
        admitted = [value for value in used if label.has(value) and self._admitted(rules, value, signature)]
        if admitted:
            return [*sorted(admitted, key=lambda value: (sum(found.get(value, 0) for found in counts), value))]
        is_preference = not all(self._topology.is_hard(rule.group) for rule in rules)
        fresh = None if is_preference else any_value(label, used)
        return [fresh] if fresh is not None and self._admitted(rules, fresh, signature) else []

    def _preference(
        self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep, key: str
    ) -> Callable[[str], _Preference]:
        """Ranks values, smaller is better: even spread, values that others need, price, then even spread of others' rules."""
        bonds = self._bonds_of(signature, step, key)
        spreads = [self._domain_counts.of(number) for number in bonds.spreads]
        crowds = [self._domain_counts.of(number) for number in bonds.crowds]
        needs = self._needs(draft.template, signature, bonds.ties, key)

        def rank(value: str) -> _Preference:
            spread = crowd = 0
            for counts in spreads:
                spread += counts.get(value, 0)
            for counts in crowds:
                crowd += counts.get(value, 0)
            return (spread, needs.get(value, 0), self._price(draft, key, value), crowd, value)

        return rank

    def _price(self, draft: ClaimDraft, key: str, value: str) -> int:
        """The lowest price of a draft once it is held to a value."""
        question = (draft.template.index, draft.reqs, draft.allowed, key, value)
        known = self._prices.get(question)
        if known is None:
            known = self._prices[question] = draft.narrowed(self._table.with_value(draft.reqs, key, value)).price
        return known

    def _bonds_of(self, signature: PodSignature, step: RelaxationStep, key: str) -> _PreferenceGroups:
        known = self._bonds.get((step.index, key))
        if known is None:
            groups = self._topology.groups
            rules = [rule for rule in step.zone_rules if rule.key == key]
            numbers = (
                {rule.group for rule in rules if rule.kind != SPREAD}
                | set(signature.selected_by)
                | set(signature.avoids)
            )
            known = self._bonds[step.index, key] = _PreferenceGroups(
                spreads=tuple(rule.group for rule in rules if rule.kind == SPREAD),
                crowds=tuple(n for n in signature.selected_by if groups[n].kind == SPREAD and groups[n].key == key),
                ties=tuple(sorted(n for n in numbers if groups[n].kind != SPREAD and groups[n].key == key)),
            )
        return known

    def _needs(
        self, template: NodeClaimTemplate, signature: PodSignature, ties: Iterable[int], key: str
    ) -> dict[str, int]:
        """Value → how much waiting pods want this pod there (below zero) or away from there (above)."""
        needs: dict[str, int] = {}
        for number in ties:
            sign = -1 if self._topology.groups[number].kind == AFFINITY else 1
            for pending_group in self._concerned.get(number, ()):
                if pending_group.waiting and pending_group.pod_group.signature is not signature:
                    possible = self._possible(pending_group, template, key)
                    for value in possible:
                        weight = _WHOLE if sign < 0 else _WHOLE // len(possible)
                        needs[value] = needs.get(value, 0) + sign * weight
        return needs

    def _possible(self, pending_group: PendingGroup, template: NodeClaimTemplate, key: str) -> tuple[str, ...]:
        """Values of a label that pods of a batch could get from a NodePool."""
        question = (pending_group.pod_group.index, template.index, key)
        known = self._open_values.get(question)
        if known is None:
            found: set[str] = set()
            for alternative in pending_group.pod_group.steps[0].alternatives if pending_group.pod_group.steps else ():
                reqs = self._table.narrowed(template.offered, alternative)
                if reqs != IMPOSSIBLE:
                    roomy = template.types.survivors(template.types.mask(reqs), pending_group.pod_group.requests)
                    found.update(template.types.values(roomy, reqs, key))
            known = self._open_values[question] = tuple(sorted(found))
        return known


def _groups_of(pending_group: PendingGroup) -> tuple[int, ...]:
    """Affinity and anti-affinity groups that a batch owns, inverse ones that select it among them."""
    steps = pending_group.pod_group.steps
    own = {rule.group for rule in steps[0].zone_rules if rule.kind != SPREAD} if steps else set()
    return tuple(sorted(own | set(pending_group.pod_group.signature.repelled_by)))
