"""Checks whether rules over zones and other shared domains let the pods of one command take their slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from core.disruption.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command, PlannedClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.new_node import ClaimProfile, ClaimProfiles
from core.scheduling.pods import PodGroup, TopologyRule
from core.scheduling.primitives import TopologyGroupId
from core.scheduling.topology.domains import Departures, DomainCounts
from core.scheduling.topology.groups import AFFINITY, SPREAD
from core.scheduling.topology.pins import launched_labels


class NewNode(msgspec.Struct, frozen=True, eq=False):
    """A node that the command launches: its number among them, and what is known of it."""

    number: int
    profile: ClaimProfile


class DomainSlot(msgspec.Struct, frozen=True, eq=False):
    """A pod's group, and its node: the position of one that exists or is launched before, or a new one."""

    group: PodGroup
    node: int | NewNode

    def rules(self, context: SchedulingContext) -> list[TopologyRule]:
        """Return the rules that the pod obeys in any case, except along labels of which its new node may get several values."""
        rules = [rule for step in self.group.steps[-1:] for rule in step.zone_rules]
        if isinstance(self.node, int):
            return rules
        return [rule for rule in rules if self.domain(rule.key, context) is not None]

    def domain(self, key: str, context: SchedulingContext) -> str | None:
        """Return the node's value of a label, None if it has none or may get several."""
        if isinstance(self.node, int):
            return context.node_index.values(key)[self.node]
        return context.table.single(self.node.profile.reqs, key)

    def record(self, counts: DomainCounts) -> None:
        """Count the pod."""
        if isinstance(self.node, int):
            counts.record_on_node(self.group.signature, self.node)
        else:
            counts.record_on_claim(self.group.signature, self.node.profile, self.node.number)


def placed(
    slots: Sequence[tuple[PodGroup, str]], new_nodes: Iterable[PlannedClaim], context: SchedulingContext
) -> list[DomainSlot]:
    """Return the slots, which name their nodes, with what the context knows of these."""
    profiles, named = ClaimProfiles(), {name for _, name in slots}
    new = {
        claim.name: NewNode(number, _profile(claim, profiles, context))
        for number, claim in enumerate(new_nodes)
        if claim.name in named
    }
    return [DomainSlot(group, new[name] if name in new else context.positions[name]) for group, name in slots]


def breaks_domain_rule(slots: Sequence[DomainSlot], counts: DomainCounts, context: SchedulingContext) -> bool:
    """Whether a rule over zones or other shared domains denies a pod its slot.

    The pods with such rules take their slots one after the other, each as soon as the rules allow it, before the command's
    other pods or after them. Another order might let more of them in: such a command is denied, and waits for the next look. A
    pod on a new node that a rule counts in some of the node's possible domains only is one too many for that domain, and does
    not fill it for the others (see `DomainCounts.admits`). The counts are changed.
    """
    ruled = [(slot, rules) for slot in slots if (rules := slot.rules(context))]
    denied = _denied(ruled, counts, context)
    if denied:
        for slot in slots:
            if not slot.rules(context):
                slot.record(counts)
        denied = _denied(denied, counts, context)
    return bool(denied)


def _denied(
    waiting: list[tuple[DomainSlot, list[TopologyRule]]], counts: DomainCounts, context: SchedulingContext
) -> list[tuple[DomainSlot, list[TopologyRule]]]:
    """Return the pods that never get their slot; the others are counted."""
    while waiting:  # each round places at least one pod
        denied = []
        for slot, rules in waiting:
            if all(counts.admits(rule, slot.domain(rule.key, context), slot.group.signature) for rule in rules):
                slot.record(counts)
            else:
                denied.append((slot, rules))
        if len(denied) == len(waiting):
            break
        waiting = denied
    return waiting


def _profile(claim: PlannedClaim, profiles: ClaimProfiles, context: SchedulingContext) -> ClaimProfile:
    """Return the profile of a planned node of a NodePool that launches nodes for pods."""
    template = next(template for template in context.templates if template.pool.name == claim.node_pool)
    return profiles.of(template, context.table.intern(launched_labels(claim)), template.mask)


# Checks whether topology rules let the pods of one command take their slots before later commands move theirs.


Slot = tuple[PodGroup, str]
"""A pod's group, and the name of the node to which it moves."""


def slot_is_denied(command: Command, going: Sequence[Candidate], fresh: DisruptionPass) -> bool:
    """Whether a spread, or a required affinity or anti-affinity, denies a pod of a command its slot.

    Of the rules over hosts, anti-affinity is left out: pods leave only nodes to which none move.

    Args:
        command: One of its moves is a slot.
        going: Its nodes.
        fresh: The pass after the earlier commands.
    """
    context = fresh.planner.context
    to = {move.pod: move.to for move in command.moves}
    slots: list[Slot] = []
    leaving = []
    for candidate in going:
        for pod in candidate.state.pods:
            if pod.key in to:
                group = context.pod_groups.of(pod)
                slots.append((group, to[pod.key]))
                leaving.append((group.signature, pod, context.positions[candidate.name]))
    departures = Departures.of((context.positions[candidate.name] for candidate in going), leaving)
    counts = DomainCounts(context.topology, departures)
    if breaks_domain_rule(placed(slots, command.replacements, context), counts.copy(), context):
        return True
    return _lacks_company(slots, counts, context) or _is_crowded(slots, counts, context)


def _lacks_company(slots: Sequence[Slot], counts: DomainCounts, context: SchedulingContext) -> bool:
    """Whether an affinity over hosts denies a pod its slot, on a node that exists or on a new one.

    The pods that it selects must be there, or come with this command or an earlier one: with a later one is too late.
    """
    arrived: set[tuple[TopologyGroupId, str]] = set()

    def admits(rule: TopologyRule, name: str) -> bool:
        if (rule.group, name) in arrived:
            return True
        position = context.positions.get(name)
        values = context.node_index.values(rule.key)
        if position is not None and counts.of(rule.group).get(values[position] or "", 0) > 0:
            return True
        is_first = counts.is_first(rule) and not any(number == rule.group for number, _ in arrived)
        return rule.selects_self and is_first

    waiting = sorted(slots, key=lambda slot: not _host_rules(slot[0], AFFINITY))
    while waiting:  # each round places at least one pod
        lonely: list[Slot] = []
        for group, name in waiting:
            if all(admits(rule, name) for rule in _host_rules(group, AFFINITY)):
                arrived.update((number, name) for number in group.signature.selected_by)
            else:
                lonely.append((group, name))
        if len(lonely) == len(waiting):
            return True
        waiting = lonely
    return False


def _is_crowded(slots: Sequence[Slot], counts: DomainCounts, context: SchedulingContext) -> bool:
    """Whether a spread over hosts denies a pod its slot on a node that exists or that an earlier command launches.

    Such a pod may take a slot before pods that its selector counts and that have no such spread, not after them. Of one
    command's pods it is the first. The counts are changed.
    """
    placed = [(group, context.positions[name]) for group, name in slots if name in context.positions]
    for group, position in sorted(placed, key=lambda slot: not _host_rules(slot[0], SPREAD)):
        for rule in _host_rules(group, SPREAD):
            if not counts.admits(rule, context.node_index.values(rule.key)[position], group.signature):
                return True
        counts.record_on_node(group.signature, position)
    return False


def _host_rules(group: PodGroup, kind: str) -> tuple[TopologyRule, ...]:
    """Return the rules over hosts of one kind that the pods obey in any case."""
    return tuple(rule for step in group.steps[-1:] for rule in step.host_rules if rule.kind == kind)
