"""Claims older than their expireAfter."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core.disruption.conditions.expiration import expired, objections
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator, places_for_any_reason
from lambdas.controllers.sweeps.sweep import EACH_ROUND, ReconcileRound


class Expiry:
    """Terminates expired claims as far as budgets allow, the others later (Karpenter asks no budget here)."""

    name: Final = "expiry"
    every: timedelta = EACH_ROUND
    is_urgent: Final = False

    def __init__(self, terminator: ClaimTerminator) -> None:
        self._terminator = terminator

    def run(self, round_: ReconcileRound) -> None:
        """Let those go that may."""
        view = round_.view
        bounds = places_for_any_reason(view)
        due = expired(view.snapshot)
        kept = objections(view.snapshot, due)

        def terminate(name: str) -> None:
            message = f"older than {view.claims[name].plan.expire_after}"
            if name in kept:
                round_.report.count("expiredButBlocked")
                round_.report.decide(DecisionKind.SKIP, name, ClaimReason.EXPIRED_BUT_BLOCKED, kept[name])
            elif self._terminator.begin_within(
                name, TerminationReason.EXPIRED, "expireAfter has passed", bounds, round_.report
            ):
                round_.report.decide(DecisionKind.EXPIRE, name, TerminationReason.EXPIRED, message)
            else:
                round_.report.count("expiredButBlocked")

        round_.each(due, terminate, subject=lambda name: name)
