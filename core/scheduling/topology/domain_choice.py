"""Restricts a new node to one value of every topology key of its pods' rules.

Karpenter leaves such keys open if it can, so that the domain of a pod is unknown. Here a node's zone is decided with the first
pod that any hard rule concerns, so every later count is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

import msgspec

from core.model.values.requirements import Requirement
from core.scheduling.capacity.claim_draft import ClaimDraft
from core.scheduling.capacity.nodeclaim_template import NodeClaimTemplate, any_value
from core.scheduling.pods.pod_group import PendingGroup, PodGroup, PodSignature, RelaxationStep, TopologyRule
from core.scheduling.primitives.handles import NO_TYPES, RequirementId, StepId, TopologyGroupId, TypeMask
from core.scheduling.primitives.memo import memo
from core.scheduling.primitives.requirement_table import IMPOSSIBLE, RequirementTable
from core.scheduling.primitives.resource_vector import Vector
from core.scheduling.topology.domain_counts import DomainCounts
from core.scheduling.topology.topology import Topology
from core.scheduling.topology.topology_group import AFFINITY, SPREAD

_WHOLE = 1000
"""The weight of a waiting pod that can go to one value only; a pod with n values weighs 1/n of this."""

_Preference = tuple[int, int, int, int, int, str]
"""Sort key of values, smaller is better: the pod count there by own spreads, the need of other pods, pods that should share the
node but cannot go there, price, the pod count there by other spreads, the value itself."""


class _PreferenceGroups(msgspec.Struct, frozen=True, eq=False):
    """The groups by which pods prefer one value of a key to another.

    Attributes:
        spreads: Spread constraints of their own.
        counted_by: Spread constraints, of any pods, that count them.
        affinities: Affinities and anti-affinities, of their own and of others.
    """

    spreads: tuple[TopologyGroupId, ...]
    counted_by: tuple[TopologyGroupId, ...]
    affinities: tuple[TopologyGroupId, ...]


class DomainChoice:
    """Chooses values for the new nodes of one plan.

    Attributes:
        differs_if_shared: Whether any choice so far would have been another if one new node should take all pods. It is only
            known if choices compare it, see the constructor.
    """

    def __init__(
        self,
        topology: Topology,
        domain_counts: DomainCounts,
        pending_groups: Iterable[PendingGroup],
        together: Callable[[], Vector] | None = None,
        *,
        only_compares: bool = False,
    ) -> None:
        """Choose for these pods.

        Args:
            topology: The rules.
            domain_counts: How many pods each domain has.
            pending_groups: The pods that need a place.
            together: Returns the requests of all pods that one new node should take; None if they may use several nodes.
            only_compares: Whether choices are made as without `together`, and only compared with those that it would lead to.
        """
        self.differs_if_shared = False
        self._topology = topology
        self._pending_groups = pending_groups = tuple(pending_groups)
        self._together = together
        self._only_compares = only_compares
        self._domain_counts = domain_counts
        self._table: RequirementTable = topology.table
        self._concerned: Callable[[], Mapping[TopologyGroupId, list[PendingGroup]]] = memo(
            partial(_by_topology_group, pending_groups)
        )
        self._preference_groups: dict[tuple[StepId, str], _PreferenceGroups] = {}
        self._price: Callable[[NodeClaimTemplate, RequirementId, TypeMask, str, str], int] = memo(_price)
        self._possible: Callable[[PodGroup, NodeClaimTemplate, str], tuple[str, ...]] = memo(_possible)
        self._restricted: Callable[[NodeClaimTemplate, str], tuple[tuple[PendingGroup, tuple[str, ...]], ...]] = memo(
            partial(_restricted, pending_groups, self._possible)
        )

    def best(self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep) -> RequirementId | None:
        """Return the first choice that leaves enough types for minValues, or None."""
        return next((c.reqs for c in self.choices(draft, signature, step, step.keys) if not c.missing_values()), None)

    def choices(
        self, draft: ClaimDraft, signature: PodSignature, step: RelaxationStep, keys: tuple[str, ...]
    ) -> Iterator[ClaimDraft]:
        """Yield the draft narrowed to one value of each key, for all combinations that the rules admit, the best first."""
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
        """Return values that every rule admits, the best first; only None if the node will not have the label."""
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
            return [*self._ordered(admitted, draft, signature, step, key)]
        return [*admitted]

    def _ordered(
        self, values: Sequence[str], draft: ClaimDraft, signature: PodSignature, step: RelaxationStep, key: str
    ) -> list[str]:
        """Return the values, the best first."""
        shared = self._shared(draft)
        if shared and not self._only_compares:
            return sorted(values, key=self._preference(draft, signature, step, key, shared))
        found = sorted(values, key=self._preference(draft, signature, step, key))
        if shared:
            self.differs_if_shared = found != sorted(found, key=self._preference(draft, signature, step, key, shared))
        return found

    def _admitted(self, rules: Iterable[TopologyRule], value: str | None, signature: PodSignature) -> bool:
        for rule in rules:  # noqa: SIM110 - a generator takes twice as long, and this is called for every value
            if not self._domain_counts.admits(rule, value, signature):
                return False
        return True

    def _open_label(
        self, rules: Sequence[TopologyRule], label: Requirement, signature: PodSignature
    ) -> list[str | None]:
        """Return values of a label that the NodePool leaves open: those in use, the emptiest first, or else a new one.

        A new value is a new domain, which makes spreads less even; it is used only if a hard rule excludes all others.
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
        self,
        draft: ClaimDraft,
        signature: PodSignature,
        step: RelaxationStep,
        key: str,
        shared: TypeMask = NO_TYPES,
    ) -> Callable[[str], _Preference]:
        """Return the ranking of values: even spread, values that others need, price, then even spread by others' rules.

        `shared` are the types with room for all pods if they should share a node.
        """
        groups = self._preference_groups_of(signature, step, key)
        spreads = [self._domain_counts.of(number) for number in groups.spreads]
        other_spreads = [self._domain_counts.of(number) for number in groups.counted_by]
        needs = self._needs(draft.template, signature, groups.affinities, key)
        apart = self._apart(draft.template, key) if shared else []
        priced = shared or draft.mask

        def rank(value: str) -> _Preference:
            # Sums of generators take three times as long, for each value of each pod.
            spread = by_others = 0
            for counts in spreads:
                spread += counts.get(value, 0)
            for counts in other_spreads:
                by_others += counts.get(value, 0)
            return (
                spread,
                needs.get(value, 0),
                sum(pods for pods, possible in apart if value not in possible),
                self._price(draft.template, draft.reqs, priced, key, value),
                by_others,
                value,
            )

        return rank

    def _shared(self, draft: ClaimDraft) -> TypeMask:
        """Return the types with room for all pods that should share the node; none if they may or have to use several."""
        if self._together is None or self.differs_if_shared:
            return NO_TYPES
        return draft.template.types.room.fitting(draft.mask, self._together())

    def _apart(self, template: NodeClaimTemplate, key: str) -> list[tuple[int, tuple[str, ...]]]:
        """Return how many pods of each group that cannot have every value still wait, and the group's values."""
        return [(group.waiting, values) for group, values in self._restricted(template, key) if group.waiting]

    def _preference_groups_of(self, signature: PodSignature, step: RelaxationStep, key: str) -> _PreferenceGroups:
        known = self._preference_groups.get((step.index, key))
        if known is None:
            groups = self._topology.groups
            rules = [rule for rule in step.zone_rules if rule.key == key]
            numbers = (
                {rule.group for rule in rules if rule.kind != SPREAD}
                | set(signature.selected_by)
                | set(signature.avoids)
            )
            known = self._preference_groups[step.index, key] = _PreferenceGroups(
                spreads=tuple(rule.group for rule in rules if rule.kind == SPREAD),
                counted_by=tuple(n for n in signature.selected_by if groups[n].kind == SPREAD and groups[n].key == key),
                affinities=tuple(sorted(n for n in numbers if groups[n].kind != SPREAD and groups[n].key == key)),
            )
        return known

    def _needs(
        self, template: NodeClaimTemplate, signature: PodSignature, affinities: Iterable[TopologyGroupId], key: str
    ) -> dict[str, int]:
        """Return value → weight of waiting pods that need this pod there (negative) or elsewhere (positive)."""
        needs: dict[str, int] = {}
        for number in affinities:
            sign = -1 if self._topology.groups[number].kind == AFFINITY else 1
            for pending_group in self._concerned().get(number, ()):
                if pending_group.waiting and pending_group.pod_group.signature is not signature:
                    possible = self._possible(pending_group.pod_group, template, key)
                    for value in possible:
                        weight = _WHOLE if sign < 0 else _WHOLE // len(possible)
                        needs[value] = needs.get(value, 0) + sign * weight
        return needs


def _price(template: NodeClaimTemplate, reqs: RequirementId, allowed: TypeMask, key: str, value: str) -> int:
    """Return the lowest price of a claim that is restricted to a value."""
    narrowed = template.types.table.with_value(reqs, key, value)
    return ClaimDraft(template, narrowed, allowed, ()).price


def _possible(pod_group: PodGroup, template: NodeClaimTemplate, key: str) -> tuple[str, ...]:
    """Return values of a label that pods of a group could get from a NodePool."""
    found: set[str] = set()
    types = template.types
    for alternative in pod_group.steps[0].alternatives if pod_group.steps else ():
        reqs = types.table.narrowed(template.offered, asked=alternative)
        if reqs != IMPOSSIBLE:
            fitting = types.room.fitting(types.mask(reqs), pod_group.requests)
            found.update(types.values(fitting, reqs, key))
    return tuple(sorted(found))


def _restricted(
    pending_groups: Iterable[PendingGroup],
    possible: Callable[[PodGroup, NodeClaimTemplate, str], tuple[str, ...]],
    template: NodeClaimTemplate,
    key: str,
) -> tuple[tuple[PendingGroup, tuple[str, ...]], ...]:
    """Return the groups whose pods could get some values of a label from a NodePool, but not all, with their values."""
    every = set(template.types.values(template.mask, template.offered, key))
    found = ((group, possible(group.pod_group, template, key)) for group in pending_groups)
    return tuple((group, values) for group, values in found if values and not every.issubset(values))


def _by_topology_group(pending_groups: Iterable[PendingGroup]) -> Mapping[TopologyGroupId, list[PendingGroup]]:
    """Return affinity and anti-affinity groups, each with the pending groups that it concerns."""
    found: dict[TopologyGroupId, list[PendingGroup]] = {}
    for pending_group in pending_groups:
        for number in _groups_of(pending_group):
            found.setdefault(number, []).append(pending_group)
    return found


def _groups_of(pending_group: PendingGroup) -> tuple[TopologyGroupId, ...]:
    """Return affinity and anti-affinity groups of a pending group: those that it owns, and inverse ones that select it."""
    steps = pending_group.pod_group.steps
    own = {rule.group for rule in steps[0].zone_rules if rule.kind != SPREAD} if steps else set()
    return tuple(sorted(own | set(pending_group.pod_group.signature.repelled_by)))
