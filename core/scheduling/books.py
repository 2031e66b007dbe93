"""What one plan keeps count of while its pods are placed."""

from __future__ import annotations

from dataclasses import dataclass

from core.scheduling.accounts import Accounts
from core.scheduling.ground import Ground
from core.scheduling.look import Looks
from core.scheduling.pinning import Pinning


@dataclass(eq=False, slots=True, frozen=True)
class Books:
    """Shared by all who place the pods of one plan.

    Attributes:
        accounts: What is used up.
        pinning: Chooses the values of topology keys by its tally.
        looks: What claims are held to.
    """

    ground: Ground
    accounts: Accounts
    pinning: Pinning
    looks: Looks
