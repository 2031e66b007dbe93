"""Completes the index from instance to claim: for claims that are older than the index, or whose index row is lost."""

from __future__ import annotations

from adapters.store import ClaimStore
from core.lifecycle.records import ClaimRecord
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class InstanceIndex(Sweep):
    """Adds missing claims to the index; otherwise, their spot interruption would be ignored as that of a foreign instance."""

    name = "instanceIndex"
    is_urgent = True

    def __init__(self, claims: ClaimStore) -> None:
        self._claims = claims

    def run(self, round_: ReconcileRound) -> None:
        """Add missing entries; a concurrently launched claim adds its own."""
        launched = [claim for claim in round_.view.claims.values() if claim.machine]
        indexed = self._claims.indexed() if launched else frozenset()
        missing = [claim for claim in launched if claim.instance_id not in indexed]

        def add(claim: ClaimRecord) -> None:
            self._claims.index(claim)
            round_.report.count("indexedInstances")

        round_.each(missing, add, subject=lambda claim: claim.name)
