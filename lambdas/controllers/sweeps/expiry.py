"""Claims older than their expireAfter."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core.disruption.conditions.expiration import expired, objections
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.letting_go import LettingGo, places_for_any_reason
from lambdas.controllers.sweeps.sweep import EACH_ROUND, Round


class Expiry:
    """Lets expired claims go as far as the budgets bear it; the others' turn comes (Karpenter asks no budget here)."""

    name: Final = "expiry"
    every: timedelta = EACH_ROUND
    is_urgent: Final = False

    def __init__(self, letting_go: LettingGo) -> None:
        self._letting_go = letting_go

    def run(self, round_: Round) -> None:
        """Let those go that may."""
        view = round_.view
        bounds = places_for_any_reason(view)
        due = expired(view.snapshot)
        kept = objections(view.snapshot, due)

        def let_go(name: str) -> None:
            message = f"older than {view.claims[name].plan.expire_after}"
            if name in kept:
                round_.outcome.count("expiredButBlocked")
                round_.outcome.decide(DecisionKind.SKIP, name, ClaimReason.EXPIRED_BUT_BLOCKED, kept[name])
            elif self._letting_go.begin_within(
                name, TerminationReason.EXPIRED, "expireAfter has passed", bounds, round_.outcome
            ):
                round_.outcome.decide(DecisionKind.EXPIRE, name, TerminationReason.EXPIRED, message)
            else:
                round_.outcome.count("expiredButBlocked")

        round_.each(due, let_go, subject=lambda name: name)
