"""Recounts the usage of NodePools' limits and budgets."""

from __future__ import annotations

from adapters.store import ClaimStore
from lambdas.controllers.pool_usage import mismatches, recount
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class Usage(Sweep):
    """Corrects counters that differ from the sums over claims."""

    name = "usage"

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims

    def run(self, round_: ReconcileRound) -> None:
        """Compare counters with claims, and correct those that differ, unless a claim cannot be read."""
        if round_.view.unreadable_claims:
            return
        wrong = mismatches(self._claims, round_.view.claims.values())
        round_.each(
            wrong,
            lambda mismatch: recount(self._claims, mismatch, round_.report),
            subject=lambda mismatch: f"NodePool {mismatch[0].node_pool}",
        )
