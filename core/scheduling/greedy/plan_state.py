"""What one plan keeps count of while its pods are placed."""

from __future__ import annotations

from dataclasses import dataclass

from core.scheduling.capacity.claim_profile import ClaimProfiles
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.plan_usage import PlanUsage
from core.scheduling.topology.domain_choice import DomainChoice


@dataclass(eq=False, slots=True, frozen=True)
class PlanState:
    """Shared by all who place the pods of one plan.

    Attributes:
        accounts: What is used up.
        pinning: Chooses the values of topology keys by its tally.
        looks: What claims are held to.
    """

    context: SchedulingContext
    usage: PlanUsage
    domain_choice: DomainChoice
    profiles: ClaimProfiles
