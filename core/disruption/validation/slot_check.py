"""Checks whether topology rules let the pods of one command take their slots before later commands move theirs."""

from __future__ import annotations

from collections.abc import Sequence

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Move
from core.scheduling.context import SchedulingContext
from core.scheduling.pods.pod_group import PodGroup, TopologyRule
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.topology.departures import Departures
from core.scheduling.topology.domain_counts import DomainCounts
from core.scheduling.topology.topology_group import AFFINITY, SPREAD

Slot = tuple[PodGroup, str]
"""A pod's group, and the name of the node to which it moves."""


def slot_is_denied(moves: Sequence[Move], going: Sequence[Candidate], fresh: DisruptionPass) -> bool:
    """Whether a spread, or a required affinity or anti-affinity, denies a pod its slot.

    Of the rules over hosts, anti-affinity is left out: pods leave only nodes to which none move.

    Args:
        moves: Where the pods of one command go.
        going: Its nodes.
        fresh: The pass after the earlier commands.
    """
    context = fresh.planner.context
    to = {move.pod: move.to for move in moves}
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
    is_denied_by_domain = _breaks_domain_rule(slots, counts.copy(), context)
    return is_denied_by_domain or _lacks_company(slots, counts, context) or _is_crowded(slots, counts, context)


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
        left: list[Slot] = []
        for group, name in waiting:
            if all(admits(rule, name) for rule in _host_rules(group, AFFINITY)):
                arrived.update((number, name) for number in group.signature.selected_by)
            else:
                left.append((group, name))
        if len(left) == len(waiting):
            return True
        waiting = left
    return False


def _is_crowded(slots: Sequence[Slot], counts: DomainCounts, context: SchedulingContext) -> bool:
    """Whether a spread over hosts denies a pod its slot on a node that exists or that an earlier command launches.

    Such a pod may take a slot before pods that its selector counts and that have no such spread, not after them. Of one
    command's pods it is the first. The counts are changed.
    """
    known = [(group, context.positions[name]) for group, name in slots if name in context.positions]
    for group, position in sorted(known, key=lambda slot: not _host_rules(slot[0], SPREAD)):
        for rule in _host_rules(group, SPREAD):
            if not counts.admits(rule, context.node_index.values(rule.key)[position], group.signature):
                return True
        counts.record_on_node(group.signature, position)
    return False


def _breaks_domain_rule(slots: Sequence[Slot], counts: DomainCounts, context: SchedulingContext) -> bool:
    """Whether a rule over zones or other shared domains denies a pod its slot on a node that exists or is launched before.

    The pods with such rules take their slots one after the other, each as soon as the rules allow it, before the command's
    other pods or after them. Another order might let more of them in: such a command is denied, and waits for the next look.
    A rule for which a pod on a new node counts is not asked: the domain of that node is not known. The counts are changed.
    """
    on_new = {number for group, name in slots if name not in context.positions for number in _groups_of(group)}
    ruled: list[tuple[PodGroup, int, list[TopologyRule]]] = []
    others: list[tuple[PodGroup, int]] = []
    for group, name in slots:
        position = context.positions.get(name)
        if position is None:
            continue
        rules = [rule for step in group.steps[-1:] for rule in step.zone_rules if rule.group not in on_new]
        if rules:
            ruled.append((group, position, rules))
        else:
            others.append((group, position))
    left = _denied(ruled, counts, context)
    if left:
        for group, position in others:
            counts.record_on_node(group.signature, position)
        left = _denied(left, counts, context)
    return bool(left)


def _denied(
    waiting: list[tuple[PodGroup, int, list[TopologyRule]]], counts: DomainCounts, context: SchedulingContext
) -> list[tuple[PodGroup, int, list[TopologyRule]]]:
    """Return the pods that never get their slot; the others are counted."""
    values = context.node_index.values
    while waiting:  # each round places at least one pod
        left = []
        for group, position, rules in waiting:
            if all(counts.admits(rule, values(rule.key)[position], group.signature) for rule in rules):
                counts.record_on_node(group.signature, position)
            else:
                left.append((group, position, rules))
        if len(left) == len(waiting):
            break
        waiting = left
    return waiting


def _groups_of(group: PodGroup) -> tuple[TopologyGroupId, ...]:
    """Return the topology groups for which the pods count."""
    return (*group.signature.selected_by, *group.signature.avoids)


def _host_rules(group: PodGroup, kind: str) -> tuple[TopologyRule, ...]:
    """Return the rules over hosts of one kind that the pods obey in any case."""
    return tuple(rule for step in group.steps[-1:] for rule in step.host_rules if rule.kind == kind)
