"""Updates the status of NodePools and EC2NodeClasses."""

from __future__ import annotations

from lambdas.controllers.status.object_status import ObjectStatus
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class Statuses(Sweep):
    """Brings the status of every class, then of every pool, up to date."""

    name = "status"

    def __init__(self, status: ObjectStatus) -> None:
        self._status = status

    def run(self, round_: ReconcileRound) -> None:
        """Write what differs, each object independently."""
        self._status.write(round_.view, round_.report, round_.attempt)
