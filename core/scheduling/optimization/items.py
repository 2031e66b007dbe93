"""Divides claims into packing items: pods that move alone, and pods that only move together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final, NamedTuple

import msgspec

from core import labels
from core.model.pod import Pod
from core.model.values.requirements import Requirement
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import InFlightClaim, NodeClaimTemplate
from core.scheduling.pods import PodGroup, PodSignature, RelaxationStep
from core.scheduling.primitives import (
    IMPOSSIBLE,
    RequirementId,
    RequirementTable,
    TopologyGroupId,
    TypeMask,
    Vector,
    memo,
    plus,
)
from core.scheduling.topology.groups import AFFINITY, ANTI_AFFINITY, SPREAD, TopologyGroup

# Packing items: the unit that moves between new nodes, usually one pod, sometimes several that must stay together.


Amounts = tuple[tuple[TopologyGroupId, int], ...]
"""(hostname topology group, amount), by group."""


class PackingItem(msgspec.Struct, frozen=True, cache_hash=True):
    """Pods, or sets of pods, that are equal in everything that decides where they may run.

    Attributes:
        requests: What one of them requests.
        reqs: Number of the requirements that a claim needs for them. Every topology key of their rules has the value that the
            greedy planner chose, so no zone's count changes.
        allowed: Types that ports and volumes allow.
        counted: How many of them each hostname group counts.
        caps: Hostname group that they obey → the most pods that it may count on their node, including themselves.
        is_fixed: Whether it is a set of pods that must stay together: a node holds at most one such set.
    """

    requests: Vector
    reqs: RequirementId
    allowed: TypeMask
    counted: Amounts = ()
    caps: Amounts = ()
    is_fixed: bool = False


class MovablePods(NamedTuple):
    """Pods that move together, and their packing item."""

    item: PackingItem
    pods: list[Pod]


class HostnameRuleState(msgspec.Struct):
    """The state of the hostname rules of all pods on one new node.

    The rules hold in every order of binding: while a pod with a rule is on the node, the count never exceeds its cap.

    Attributes:
        counted: Hostname group → pods on the node that it counts.
        caps: Hostname group → the smallest cap of the pods on the node.
    """

    counted: dict[TopologyGroupId, int] = msgspec.field(default_factory=dict)
    caps: dict[TopologyGroupId, int] = msgspec.field(default_factory=dict)

    def admits(self, item: PackingItem) -> bool:
        """Whether the item may join."""
        caps, counted = dict(item.caps), self.counted
        for group, amount in item.counted:
            total = counted.get(group, 0) + amount
            if total > self.caps.get(group, total) or total > caps.pop(group, total):
                return False
        return not caps or all(counted.get(group, 0) <= cap for group, cap in caps.items())

    def add(self, item: PackingItem) -> None:
        """Add the item."""
        for group, amount in item.counted:
            self.counted[group] = self.counted.get(group, 0) + amount
        for group, cap in item.caps:
            self.caps[group] = min(cap, self.caps.get(group, cap))


# Expresses topology rules along hostnames as counts and caps on one new node.


class HostnameCaps:
    """How hostname groups count pods, and how many they allow on a node.

    Attributes:
        counted: Pod signature → the groups of spreads and anti-affinities that count such a pod, each with the amount one.
        caps: Relaxation step → how many pods each group may count on the node of such a pod, itself included.
        followed: Pod group → the affinity groups whose pods must or should be on the node of such a pod.
    """

    def __init__(self, groups: Sequence[TopologyGroup]) -> None:
        self.counted: Callable[[PodSignature], Amounts] = memo(partial(_counted, groups))
        self.caps: Callable[[RelaxationStep], Amounts] = memo(partial(_caps, groups))
        self.followed: Callable[[PodGroup], frozenset[TopologyGroupId]] = memo(_followed)


def _counted(groups: Sequence[TopologyGroup], signature: PodSignature) -> Amounts:
    has_cap = (SPREAD, ANTI_AFFINITY)
    numbers = (n for n in signature.selected_by if groups[n].is_hostname and groups[n].kind in has_cap)
    return tuple((number, 1) for number in numbers)


def _caps(groups: Sequence[TopologyGroup], step: RelaxationStep) -> Amounts:
    """Return the caps of a step.

    A spread allows its maxSkew: along hostnames the minimum is zero, since a new node is possible.
    """
    caps: dict[TopologyGroupId, int] = {}
    for rule in step.host_rules:
        if rule.kind in (SPREAD, ANTI_AFFINITY):
            cap = groups[rule.group].max_skew if rule.kind == SPREAD else int(rule.selects_self)
            caps[rule.group] = min(cap, caps.get(rule.group, cap))
    return tuple(sorted(caps.items()))


def _followed(pod_group: PodGroup) -> frozenset[TopologyGroupId]:
    rules = (rule for step in pod_group.steps[:1] for rule in step.host_rules)
    return frozenset(rule.group for rule in rules if rule.kind == AFFINITY)


def merged(rules: Iterable[tuple[Amounts, Amounts]]) -> tuple[Amounts, Amounts]:
    """Merge (counted, caps) of several pods: the sum of the counts, and all caps.

    Pods that already share a node may exceed one of their caps if each was allowed when it was bound. Their cap is then their
    number.
    """
    counted: dict[TopologyGroupId, int] = {}
    caps: dict[TopologyGroupId, int] = {}
    for more, allowed in rules:
        for number, amount in more:
            counted[number] = counted.get(number, 0) + amount
        for number, cap in allowed:
            caps[number] = min(cap, caps.get(number, cap))
    raised = ((number, max(cap, counted.get(number, 0))) for number, cap in caps.items())
    return tuple(sorted(counted.items())), tuple(sorted(raised))


_RequirementsOf = Callable[[PodSignature, RelaxationStep, RequirementId, "RepackScope"], RequirementId]
"""Signature, relaxation step, a claim's requirements and its scope → the pods' requirements when they move from the claim."""

_UNRESERVED: Final = Requirement(labels.CAPACITY_TYPE, True, (labels.RESERVED,))
"""Capacity types for repacking: places in reservations stay with the claims of the greedy plan."""


class RepackScope(msgspec.Struct, frozen=True, eq=False):
    """Claims between which pods may be moved: claims of one NodePool with equal labels of their own.

    Attributes:
        template: The NodePool's.
        offered: Number of the initial requirements of a new node of the scope.
    """

    template: NodeClaimTemplate
    offered: RequirementId


class ItemExtraction:
    """The pods of one plan as packing items."""

    def __init__(self, context: SchedulingContext, hostname_caps: HostnameCaps) -> None:
        self._context = context
        self._hostname_caps = hostname_caps
        self._scope: Callable[[NodeClaimTemplate, RequirementId], RepackScope] = memo(partial(_scope, context.table))
        self._is_met: Callable[[RelaxationStep, RequirementId, RepackScope], bool] = memo(partial(_is_met, context))
        reqs_of: _RequirementsOf = memo(partial(_certain_requirements, context))
        self._movable: Callable[[PodGroup, RelaxationStep, RequirementId, RepackScope], PackingItem | None] = memo(
            partial(_movable, context, hostname_caps, reqs_of)
        )
        self._item_of_one_step: Callable[[PodGroup, RequirementId, RepackScope], PackingItem | None] = memo(
            partial(_item_of_one_step, self._is_met, self._movable)
        )

    def scope(self, claim: InFlightClaim) -> RepackScope:
        """Return the scope of a claim."""
        return self._scope(claim.template, claim.reqs)

    def items_of(self, claim: InFlightClaim, scope: RepackScope) -> list[MovablePods]:
        """Return the claim's pods as items; those that stay together come first.

        A pod with hostname affinity moves together with all pods that it follows, and stays if any of them stays.
        """
        followed = frozenset[int]().union(*map(self._hostname_caps.followed, dict.fromkeys(claim.pod_groups)))
        fixed: list[Pod] = []
        together: list[tuple[PackingItem | None, Pod]] = []
        alone: list[MovablePods] = []
        for pod, pod_group in zip(claim.pods, claim.pod_groups, strict=True):
            item = self._item(claim, scope, pod_group)
            if followed and not followed.isdisjoint(self._affinities(pod_group)):
                together.append((item, pod))
            elif item is None:
                fixed.append(pod)
            else:
                alone.append(MovablePods(item, [pod]))
        joined = self._joined(scope, [item for item, _ in together]) if together else None
        if joined is None:
            fixed += [pod for _, pod in together]
        items = [MovablePods(self._fixed(claim, fixed), fixed)] if fixed else []
        if joined is not None:
            items.append(MovablePods(joined, [pod for _, pod in together]))
        return items + alone

    def _affinities(self, pod_group: PodGroup) -> tuple[TopologyGroupId, ...]:
        """The groups that count such a pod, and the affinity groups that it follows."""
        return (*pod_group.signature.selected_by, *self._hostname_caps.followed(pod_group))

    def _item(self, claim: InFlightClaim, scope: RepackScope, pod_group: PodGroup) -> PackingItem | None:
        """Return a pod of the group as a separate item; None if it stays with the claim's other such pods.

        It keeps the first relaxation step that its claim meets, so that no satisfied preference is lost.
        """
        if len(pod_group.steps) == 1:
            return self._item_of_one_step(pod_group, claim.reqs, scope)
        for step in pod_group.steps:
            is_last = step is pod_group.steps[-1]
            if self._is_met(step, claim.reqs, scope) and (is_last or self._keeps_caps(claim, step)):
                return self._movable(pod_group, step, claim.reqs, scope)
        return None

    def _keeps_caps(self, claim: InFlightClaim, step: RelaxationStep) -> bool:
        """Whether the claim's own pods keep the hostname rules of a step."""
        caps = self._hostname_caps.caps(step)
        numbers = (number for signature in claim.signatures for number, _ in self._hostname_caps.counted(signature))
        counts = Counter(numbers) if caps else Counter[TopologyGroupId]()
        return all(counts[number] <= cap for number, cap in caps)

    def _joined(self, scope: RepackScope, members: Sequence[PackingItem | None]) -> PackingItem | None:
        """Return several items as one, None if one of them cannot move or no node suits all."""
        items = [item for item in members if item is not None]
        if len(items) < len(members):
            return None
        reqs = scope.offered
        for item in items:
            reqs = self._context.table.narrowed(reqs, required=item.reqs) if reqs != IMPOSSIBLE else reqs
        if reqs == IMPOSSIBLE:
            return None
        requests = self._sum(item.requests for item in items)
        rules = merged((item.counted, item.caps) for item in items)
        return PackingItem(requests, reqs, scope.template.size_for(requests), *rules)

    def _fixed(self, claim: InFlightClaim, pods: Sequence[Pod]) -> PackingItem:
        """Return an item for pods that stay together, with the claim's requirements."""
        pod_groups = [self._context.pod_groups.of(pod) for pod in pods]
        requests = self._sum(pod_group.requests for pod_group in pod_groups)
        caps = self._hostname_caps
        rules = merged((caps.counted(group.signature), caps.caps(group.steps[-1])) for group in pod_groups)
        return PackingItem(requests, claim.reqs, claim.allowed, *rules, is_fixed=True)

    def _sum(self, vectors: Iterable[Vector]) -> Vector:
        total = self._context.axis.zero
        for vector in vectors:
            total = plus(total, vector)
        return total


def _scope(table: RequirementTable, template: NodeClaimTemplate, reqs: RequirementId) -> RepackScope:
    narrowed = [requirement for key, requirement in table[reqs].items() if key not in table.well_known]
    if template.types.offerings.reservations:
        narrowed.append(_UNRESERVED)
    base = table.narrowed(template.offered, required=table.conjunction(narrowed)) if narrowed else template.offered
    return RepackScope(template, base)


def _is_met(context: SchedulingContext, step: RelaxationStep, reqs: RequirementId, scope: RepackScope) -> bool:
    """Whether a claim with these requirements meets a step, regardless of its other pods."""
    if len(step.alternatives) != 1 or not context.open_templates(step)[scope.template.index]:
        return False
    is_granted = context.table.narrowed(reqs, required=step.alternatives[0]) == reqs
    return is_granted and all(context.table.single(reqs, key) is not None for key in step.keys)


def _item_of_one_step(
    is_met: Callable[[RelaxationStep, RequirementId, RepackScope], bool],
    movable: Callable[[PodGroup, RelaxationStep, RequirementId, RepackScope], PackingItem | None],
    pod_group: PodGroup,
    claim_reqs: RequirementId,
    scope: RepackScope,
) -> PackingItem | None:
    """Return a pod without preferences as an item; None if its claim does not meet its only step, or it must not move alone."""
    step = pod_group.steps[0]
    return movable(pod_group, step, claim_reqs, scope) if is_met(step, claim_reqs, scope) else None


def _movable(
    context: SchedulingContext,
    hostname_caps: HostnameCaps,
    reqs_of: _RequirementsOf,
    pod_group: PodGroup,
    step: RelaxationStep,
    claim_reqs: RequirementId,
    scope: RepackScope,
) -> PackingItem | None:
    """Return a pod at one of its steps as an item, from a claim with these requirements; None if it must not move by itself."""
    if not all(constraint.may_move(pod_group) for constraint in context.constraints):
        return None
    reqs = reqs_of(pod_group.signature, step, claim_reqs, scope)
    if reqs == IMPOSSIBLE:
        return None
    allowed = scope.template.size_for(pod_group.requests)
    counted, caps = hostname_caps.counted(pod_group.signature), hostname_caps.caps(step)
    return PackingItem(pod_group.requests, reqs, allowed, counted, caps)


def _certain_requirements(
    context: SchedulingContext,
    signature: PodSignature,
    step: RelaxationStep,
    claim_reqs: RequirementId,
    scope: RepackScope,
) -> RequirementId:
    """Return the pods' requirements, with the claim's values of the topology keys of their rules.

    They are impossible if some rule would count the pods only on some of the nodes that they may move to.
    """
    table = context.table
    reqs = table.narrowed(scope.offered, required=step.alternatives[0])
    for key in step.keys:
        value = table.single(claim_reqs, key)
        if reqs != IMPOSSIBLE and value is not None:
            reqs = table.with_value(reqs, key, value)
    is_certain = reqs != IMPOSSIBLE and not _is_uncertain(context, signature, reqs, scope.template)
    return reqs if is_certain else IMPOSSIBLE


def _is_uncertain(
    context: SchedulingContext, signature: PodSignature, reqs: RequirementId, template: NodeClaimTemplate
) -> bool:
    """Whether some rule would count the pods on one node that they may move to, but not on another."""
    topology = context.topology
    numbers = (n for n in (*signature.selected_by, *signature.avoids) if not topology.groups[n].is_hostname)
    return any(
        topology.new_nodes.counts(n, reqs, template) and topology.new_nodes.is_uncertain(n, reqs, template)
        for n in numbers
    )
