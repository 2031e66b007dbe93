"""What one plan keeps count of while its pods are placed."""

from __future__ import annotations

from dataclasses import dataclass

from core.scheduling.capacity.claim_profile import Looks
from core.scheduling.context import Ground
from core.scheduling.greedy.plan_usage import Accounts
from core.scheduling.topology.domain_choice import Pinning


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
