"""Finds nodes that were deleted while their instances run on, some of which joined again."""

from __future__ import annotations

from adapters.messages import work_on_claim
from adapters.ports import Queue
from core.lifecycle.records import ClaimRecord
from core.lifecycle.registration import was_recreated
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class DeletedNodes(Sweep):
    """Requests a check by `execute`, which reads the node by name, and removes the claim or registers the new node."""

    name = "deletedNodes"
    is_urgent = True

    def __init__(self, work: Queue) -> None:
        self._work = work

    def run(self, round_: ReconcileRound) -> None:
        """Send the claims whose node is gone, is being deleted, or is another one by now."""
        view = round_.view
        staying = {node.name: node for node in view.snapshot.nodes if node.deleted_at is None}

        def is_gone(record: ClaimRecord) -> bool:
            node = staying.get(record.node_name)
            return node is None or was_recreated(record, node)

        gone = [record.name for record in view.claims.values() if record.is_settled and is_gone(record)]
        now = round_.clock.now()
        self._work.send(work_on_claim(name, now) for name in gone)
        round_.report.count("deletedNodes", len(gone))
