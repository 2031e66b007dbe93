"""Finds nodes that were deleted while their instances run on."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from lambdas.controllers.sweeps.sweep import EACH_ROUND, ReconcileRound
from lambdas.messages import work_on_claim
from lambdas.ports import Clock, Queue


class DeletedNodes:
    """Has `execute` check by name, and remove the claim."""

    name: Final = "deletedNodes"
    every: timedelta = EACH_ROUND
    is_urgent: Final = True

    def __init__(self, work: Queue, clock: Clock) -> None:
        self._work = work
        self._clock = clock

    def run(self, round_: ReconcileRound) -> None:
        """Send the claims whose node is gone, or being deleted."""
        view = round_.view
        staying = {node.name for node in view.snapshot.nodes if node.deleted_at is None}
        gone = [r.name for r in view.claims.values() if r.is_settled and r.node_name not in staying]
        now = self._clock.now()
        self._work.send(work_on_claim(name, now) for name in gone)
        round_.report.count("deletedNodes", len(gone))
