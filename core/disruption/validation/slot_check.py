"""Checks whether topology rules let the pods of one command take their slots before later commands move theirs."""

from __future__ import annotations

from collections.abc import Sequence

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.validation.domain_slots import breaks_domain_rule, placed
from core.model.plan import Command
from core.scheduling.context import SchedulingContext
from core.scheduling.pods.pod_group import PodGroup, TopologyRule
from core.scheduling.primitives.handles import TopologyGroupId
from core.scheduling.topology.departures import Departures
from core.scheduling.topology.domain_counts import DomainCounts
from core.scheduling.topology.topology_group import AFFINITY, SPREAD

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


def _host_rules(group: PodGroup, kind: str) -> tuple[TopologyRule, ...]:
    """Return the rules over hosts of one kind that the pods obey in any case."""
    return tuple(rule for step in group.steps[-1:] for rule in step.host_rules if rule.kind == kind)
