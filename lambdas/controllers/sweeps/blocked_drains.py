"""Counts drains without progress, as gauges: all, and those without progress for a day."""

from __future__ import annotations

from core.lifecycle.draining.escalation import EscalationLevel
from installation.metric_names import DRAINS_BLOCKED, DRAINS_BLOCKED_FOR_A_DAY
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class BlockedDrains(Sweep):
    """Counts blocked drains; `core.lifecycle.draining.escalation` decides what is done about each."""

    name = "blockedDrains"

    def run(self, round_: ReconcileRound) -> None:
        """Count."""
        levels = [
            record.deletion.escalation_level for record in round_.view.claims.values() if record.deletion is not None
        ]
        round_.report.count(
            DRAINS_BLOCKED, sum(escalation_level >= EscalationLevel.BLOCKED for escalation_level in levels)
        )
        round_.report.count(
            DRAINS_BLOCKED_FOR_A_DAY, sum(escalation_level >= EscalationLevel.ALARMING for escalation_level in levels)
        )
