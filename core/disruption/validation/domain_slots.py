"""Checks whether rules over zones and other shared domains let the pods of one command take their slots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from core.model.plan import PlannedClaim
from core.scheduling.capacity.claim_profile import ClaimProfile, ClaimProfiles
from core.scheduling.context import SchedulingContext
from core.scheduling.pods.pod_group import PodGroup, TopologyRule
from core.scheduling.topology.domain_counts import DomainCounts
from core.scheduling.topology.domain_pins import launched_labels


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
    left = _denied(ruled, counts, context)
    if left:
        for slot in slots:
            if not slot.rules(context):
                slot.record(counts)
        left = _denied(left, counts, context)
    return bool(left)


def _denied(
    waiting: list[tuple[DomainSlot, list[TopologyRule]]], counts: DomainCounts, context: SchedulingContext
) -> list[tuple[DomainSlot, list[TopologyRule]]]:
    """Return the pods that never get their slot; the others are counted."""
    while waiting:  # each round places at least one pod
        left = []
        for slot, rules in waiting:
            if all(counts.admits(rule, slot.domain(rule.key, context), slot.group.signature) for rule in rules):
                slot.record(counts)
            else:
                left.append((slot, rules))
        if len(left) == len(waiting):
            break
        waiting = left
    return waiting


def _profile(claim: PlannedClaim, profiles: ClaimProfiles, context: SchedulingContext) -> ClaimProfile:
    """Return the profile of a planned node of a NodePool that launches nodes for pods."""
    template = next(template for template in context.templates if template.pool.name == claim.node_pool)
    return profiles.of(template, context.table.intern(launched_labels(claim)), template.mask)
