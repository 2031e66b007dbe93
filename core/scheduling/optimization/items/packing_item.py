"""Packing items: the unit that moves between new nodes, usually one pod, sometimes several that must stay together."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from core.model.pod import Pod
from core.scheduling.primitives.handles import RequirementId, TopologyGroupId, TypeMask
from core.scheduling.primitives.resource_vector import Vector

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
