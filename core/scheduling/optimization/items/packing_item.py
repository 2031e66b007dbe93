"""What moves between new nodes: usually one pod, sometimes several that must stay together."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from core.model.pod import Pod
from core.scheduling.primitives.handles import RequirementId, TopologyGroupId, TypeMask
from core.scheduling.primitives.resource_vector import Vector

Amounts = tuple[tuple[TopologyGroupId, int], ...]
"""(hostname topology group, amount), by group."""


@dataclass(frozen=True, slots=True)
class PackingItem:
    """Pods, or sets of pods, that are alike in all that decides where they may be.

    Attributes:
        requests: What one of them requests.
        reqs: Number of the requirements that a claim must have for them. Every topology key of a rule about them is set to the
            value that the greedy planner chose, so no count of any zone changes.
        allowed: Types that ports and volumes leave them.
        counted: How many of them each hostname group counts.
        caps: How many pods the groups that they obey may count on their node, themselves included.
        is_fixed: For a set of pods that cannot be taken apart: a node holds at most one such set.
    """

    requests: Vector
    reqs: RequirementId
    allowed: TypeMask
    counted: Amounts = ()
    caps: Amounts = ()
    is_fixed: bool = False
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Hash once: items are keys, and a plan looks each up a dozen times."""
        parts = (self.requests, self.reqs, self.allowed, self.counted, self.caps, self.is_fixed)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        """The hash of all attributes."""
        return self._hash


class MovablePods(NamedTuple):
    """Pods that are moved together, and what they are for packing."""

    item: PackingItem
    pods: list[Pod]


class HostnameRuleState(msgspec.Struct):
    """How the hostname rules of all pods on one new node stand.

    They hold in whatever order pods are bound: while a pod that has a rule is there, no more are counted than it allows.

    Attributes:
        counted: Hostname group → pods on the node that it counts.
        caps: Hostname group → how many the pods on the node allow.
    """

    counted: dict[TopologyGroupId, int] = msgspec.field(default_factory=dict)
    caps: dict[TopologyGroupId, int] = msgspec.field(default_factory=dict)

    def admits(self, item: PackingItem) -> bool:
        """Whether the item may join."""
        caps = dict(item.caps)
        for group, amount in item.counted:
            total = self.counted.get(group, 0) + amount
            if total > self.caps.get(group, total) or total > caps.pop(group, total):
                return False
        return all(self.counted.get(group, 0) <= cap for group, cap in caps.items())

    def add(self, item: PackingItem) -> None:
        """Let the item join."""
        for group, amount in item.counted:
            self.counted[group] = self.counted.get(group, 0) + amount
        for group, cap in item.caps:
            self.caps[group] = min(cap, self.caps.get(group, cap))
