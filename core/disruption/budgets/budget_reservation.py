"""Reserves budgets tentatively during the search for commands that run together."""

from __future__ import annotations

from core.disruption.budgets.eviction_rate import EvictionRate
from core.disruption.budgets.node_pool_budgets import RemainingBudgets
from core.disruption.candidates.candidate import Candidate
from core.pods.disruption_budgets import RemainingEvictions


class BudgetReservation:
    """The remaining NodePool budgets, PodDisruptionBudgets and ceilings on evictions per hour."""

    def __init__(self, budgets_left: RemainingBudgets, evictions: RemainingEvictions, rate: EvictionRate) -> None:
        self._budgets_left = budgets_left
        self._evictions = evictions
        self._rate = rate

    def allows(self, candidate: Candidate, reason: str) -> bool:
        """Whether the candidate may go in addition to those already taken."""
        pods = candidate.state.pods
        has_place = self._budgets_left.allows(candidate.pool.name, reason) and self._evictions.allows_together([pods])
        return has_place and self._rate.allows([candidate])

    def take(self, candidate: Candidate, reason: str) -> bool:
        """Take the candidate's share of the budgets if there is room, and return whether there was."""
        if not self.allows(candidate, reason):
            return False
        self._budgets_left.take(candidate.pool.name)
        self._evictions.take(candidate.state.pods)
        self._rate.take(candidate)
        return True
