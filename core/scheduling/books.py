"""What one plan keeps count of while its pods are placed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.scheduling.ground import Ground
from core.scheduling.limits import Room
from core.scheduling.look import Looks
from core.scheduling.pinning import Pinning
from core.scheduling.reservations import Reservations
from core.scheduling.tally import Tally


@dataclass(eq=False, slots=True, frozen=True)
class Books:
    """Shared by all who place the pods of one plan.

    Attributes:
        tally: Where the pods of each topology group are.
        pinning: Chooses the values of topology keys by it.
        rooms: What the limits leave for each template.
        reservations: What capacity reservations have left.
        looks: What claims are held to.
    """

    ground: Ground
    tally: Tally
    pinning: Pinning
    rooms: Sequence[Room]
    reservations: Reservations
    looks: Looks
