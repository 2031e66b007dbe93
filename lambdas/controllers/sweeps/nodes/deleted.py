"""Finds nodes that were deleted while their instances run on."""

from __future__ import annotations

from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep
from lambdas.messages import work_on_claim
from lambdas.ports import Queue


class DeletedNodes(Sweep):
    """Requests a check by `execute`, which reads the node by name and removes the claim."""

    name = "deletedNodes"
    is_urgent = True

    def __init__(self, work: Queue) -> None:
        self._work = work

    def run(self, round_: ReconcileRound) -> None:
        """Send the claims whose node is gone or being deleted."""
        view = round_.view
        staying = {node.name for node in view.snapshot.nodes if node.deleted_at is None}
        gone = [r.name for r in view.claims.values() if r.is_settled and r.node_name not in staying]
        now = round_.clock.now()
        self._work.send(work_on_claim(name, now) for name in gone)
        round_.report.count("deletedNodes", len(gone))
