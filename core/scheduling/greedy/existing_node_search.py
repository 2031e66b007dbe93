"""Searches existing nodes by first fit: initialized ones first, then by name.

Nodes that the stored target drains later come last.
"""

from __future__ import annotations

from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.pods.pod_group import PendingGroup, PodGroup, PodSignature, RelaxationStep
from core.scheduling.primitives.bit_set import bits
from core.scheduling.primitives.handles import NodeMask, PodGroupId
from core.scheduling.primitives.resource_vector import Vector, minus, within
from core.scheduling.topology.topology_group import AFFINITY


class ExistingNodeSearch:
    """The existing nodes, which one plan fills.

    `opens_drained_later`: whether nodes that the stored target drains later are open to pods that avoid them.
    """

    def __init__(self, state: PlanState, leaving: frozenset[int]) -> None:
        self._context = state.context
        self._domain_counts = state.domain_counts
        self._constraints = state.constraints
        self._staying = ~NodeMask(bits(leaving))
        self._drained_later = state.context.node_index.drained_later & self._staying
        self.opens_drained_later = not self._drained_later
        self._free: dict[int, Vector] = {}
        self._open: dict[tuple[PodGroupId, int, bool], NodeMask] = {}

    def find(self, pending_group: PendingGroup, step: RelaxationStep) -> int | None:
        """Return the first node that takes one more pod of the group."""
        if not self._context.existing_nodes:
            return None
        found = self._first(pending_group, step, ~self._drained_later)
        if (
            found is None
            and self._drained_later
            and (self.opens_drained_later or not pending_group.avoids_drained_later)
        ):
            return self._first(pending_group, step, self._drained_later)
        return found

    def _first(self, pending_group: PendingGroup, step: RelaxationStep, among: NodeMask) -> int | None:
        """Return the first of these nodes that takes one more pod of the group.

        A node that is too full for the pods stays so and is not tried again, nor is one with a violated rule that further pods
        cannot fix.
        """
        key = (pending_group.pod_group.index, step.number, pending_group.avoids_recently_changed)
        still_open = self._open.get(key)
        if still_open is None:
            still_open = self._suitable(pending_group, step)
        found, left = None, still_open & self._near(step) & among
        # The lowest set bit is the first node in order. A refusal excludes all nodes of the domain at once; it is cached only
        # if later pods cannot lift it.
        while left and found is None:
            bit = left & -left
            position = bit.bit_length() - 1
            if not self._has_room(position, pending_group.pod_group):
                still_open ^= bit
                left ^= bit
                continue
            refused = self._refused(position, pending_group.pod_group.signature, step)
            if not refused:
                found = position
            elif step.is_monotone:
                still_open &= ~refused
            left &= ~refused
        self._open[key] = still_open
        return found

    def open_to(self, pending_group: PendingGroup, step: RelaxationStep) -> NodeMask:
        """Return nodes whose labels, taints and initial room suit the pods."""
        return self._suitable(pending_group, step) & self._near(step)

    def takes(self, position: int, pod_group: PodGroup, step: RelaxationStep) -> bool:
        """Whether a node of `open_to` takes one more pod of the group now."""
        return self._has_room(position, pod_group) and not self._refused(position, pod_group.signature, step)

    def place(self, position: int, pod_group: PodGroup) -> None:
        """Reserve the room for one pod and count the pod."""
        node = self._context.existing_nodes[position]
        self._free[position] = minus(self._free.get(position, node.free), pod_group.requests)
        for constraint in self._constraints.concerning(pod_group):
            constraint.reserve_on_node(node, pod_group)
        self._domain_counts.record_on_node(pod_group.signature, position)

    def _suitable(self, pending_group: PendingGroup, step: RelaxationStep) -> NodeMask:
        """Return nodes whose labels, taints and initial room suit the pods, as a bit set of positions."""
        nodes = self._context.node_index
        found = nodes.suitable(step.alternatives, step.demands.tolerations) & nodes.with_room(
            pending_group.pod_group.requests
        )
        return found & self._staying & (~nodes.recently_changed if pending_group.avoids_recently_changed else -1)

    def _near(self, step: RelaxationStep) -> NodeMask:
        """Return nodes with a pod that the pods must share a node with; all nodes without such a rule."""
        near = NodeMask(-1)
        for rule in step.host_rules:
            if rule.kind == AFFINITY and not self._domain_counts.is_first(rule):
                hosts = self._context.node_index.domains(rule.key)
                occupied = NodeMask(0)
                for host in self._domain_counts.of(rule.group):
                    occupied |= hosts[host]
                near &= occupied
        return near

    def _has_room(self, position: int, pod_group: PodGroup) -> bool:
        free = self._free.get(position)
        if free is not None and not within(pod_group.requests, free):
            return False
        node = self._context.existing_nodes[position]
        # Plain pods are most of them, and this is asked for each pod and node that is tried: a third of the time.
        return pod_group.is_plain or all(c.admits(node, pod_group) for c in self._constraints.concerning(pod_group))

    def _refused(self, position: int, signature: PodSignature, step: RelaxationStep) -> NodeMask:
        """Return the nodes, including this one, that the first violated rule excludes; none if no rule is violated."""
        for rule in (*step.host_rules, *step.zone_rules):
            domain = self._context.node_index.values(rule.key)[position]
            if not self._domain_counts.admits(rule, domain, signature):
                return self._context.node_index.domains(rule.key)[domain]
        return NodeMask(0)
