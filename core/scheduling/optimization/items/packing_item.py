"""What is moved between new nodes: mostly one pod, sometimes several that must stay together."""

from __future__ import annotations

from dataclasses import dataclass, field

from core.scheduling.primitives.handles import RequirementId, TypeMask
from core.scheduling.primitives.resource_vector import Vector

Amounts = tuple[tuple[int, int], ...]
"""(number of a hostname group, amount), by number."""


@dataclass(frozen=True, slots=True)
class Party:
    """Pods, or sets of pods, that are alike in all that decides where they may be.

    Attributes:
        reqs: Number of the requirements that a claim is held to for them; every topology key that a rule about them speaks
            of is held to the value that the greedy planner chose, so no count of any zone changes.
        allowed: Types that ports and volumes leave them.
        adds: How many of them each hostname group counts.
        caps: How many pods the groups that they obey may count on their node, themselves included.
        seats: One for a set that is kept for a reason not told here: a node has room for one such set.
    """

    requests: Vector
    reqs: RequirementId
    allowed: TypeMask
    adds: Amounts = ()
    caps: Amounts = ()
    seats: int = 0


@dataclass(slots=True)
class Neighbours:
    """How the hostname rules of all pods on one new node stand.

    A rule holds here in whatever order pods are bound: while one that has it is there, no more may be counted than it allows.
    """

    counted: dict[int, int] = field(default_factory=dict)
    most: dict[int, int] = field(default_factory=dict)

    def admits(self, party: Party) -> bool:
        """Whether the party may join."""
        caps = dict(party.caps)
        for group, amount in party.adds:
            total = self.counted.get(group, 0) + amount
            if total > self.most.get(group, total) or total > caps.pop(group, total):
                return False
        return all(self.counted.get(group, 0) <= cap for group, cap in caps.items())

    def add(self, party: Party) -> None:
        """Let the party join."""
        for group, amount in party.adds:
            self.counted[group] = self.counted.get(group, 0) + amount
        for group, cap in party.caps:
            self.most[group] = min(cap, self.most.get(group, cap))
