"""What one plan has used up so far: places beside other pods, limits of NodePools, capacity reservations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.scheduling.capacity.node_pool_limits import RemainingLimits
from core.scheduling.greedy.reservations import Reservations
from core.scheduling.topology.domain_counts import DomainCounts


@dataclass(eq=False, slots=True, frozen=True)
class PlanUsage:
    """Changes with every pod that gets its place.

    Attributes:
        tally: Where the pods of every topology group are.
        rooms: What the limits leave for each template.
        reservations: What capacity reservations have left.
    """

    domain_counts: DomainCounts
    limits: Sequence[RemainingLimits]
    reservations: Reservations

    def copy(self) -> PlanUsage:
        """As they are now; what is placed later counts in one of the two only."""
        return PlanUsage(self.domain_counts.copy(), [room.copy() for room in self.limits], self.reservations.copy())
