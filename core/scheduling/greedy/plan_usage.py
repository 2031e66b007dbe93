"""What one plan has used up so far: places beside other pods, limits of NodePools, capacity reservations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.scheduling.capacity.node_pool_limits import Room
from core.scheduling.greedy.reservations import Reservations
from core.scheduling.topology.domain_counts import Tally


@dataclass(eq=False, slots=True, frozen=True)
class Accounts:
    """Changes with every pod that gets its place.

    Attributes:
        tally: Where the pods of every topology group are.
        rooms: What the limits leave for each template.
        reservations: What capacity reservations have left.
    """

    tally: Tally
    rooms: Sequence[Room]
    reservations: Reservations

    def copy(self) -> Accounts:
        """As they are now; what is placed later counts in one of the two only."""
        return Accounts(self.tally.copy(), [room.copy() for room in self.rooms], self.reservations.copy())
