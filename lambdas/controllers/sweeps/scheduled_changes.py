"""Removes claims whose instance AWS will retire or restart."""

from __future__ import annotations

from core.lifecycle.draining.replacing import REPLACED_WITHIN
from core.lifecycle.records import ClaimRecord
from core.lifecycle.scheduled_changes import approaching, is_due
from core.reasons.claim import ClaimReason
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.budgeted_termination import BudgetedTermination
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class ScheduledChanges(Sweep):
    """Removes them within budgets some days before their date, without budgets in the last hours (Karpenter: at once)."""

    name = "scheduledChanges"

    def __init__(self, terminator: ClaimTerminator) -> None:
        self._terminator = terminator
        self._budgeted = BudgetedTermination(
            terminator=terminator,
            reason=TerminationReason.SCHEDULED_CHANGE,
            blocked=ClaimReason.SCHEDULED_CHANGE_BLOCKED,
            blocked_count="scheduledChangesBlocked",
            waits=REPLACED_WITHIN,
        )

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims that must go, then those that may."""
        view, now = round_.view, round_.clock.now()
        must = [record for record in view.claims.values() if is_due(record, now)]
        round_.each(must, lambda record: self._must_go(record, round_), subject=lambda record: record.name)
        may = approaching(view.claims.values(), view.snapshot.marked_for_deletion, now)
        self._budgeted.begin(may, round_, message=lambda name: _message(view.claims[name]))

    def _must_go(self, record: ClaimRecord, round_: ReconcileRound) -> None:
        ends_at = round_.clock.now() + REPLACED_WITHIN
        if record.retires_at is not None:
            ends_at = min(ends_at, record.retires_at)
        self._terminator.begin(
            record.name, TerminationReason.SCHEDULED_CHANGE_DUE, _message(record), round_.report, ends_at=ends_at
        )


def _message(record: ClaimRecord) -> str:
    return f"AWS announced a change of instance {record.instance_id} for {record.retires_at:%Y-%m-%dT%H:%M:%SZ}"
