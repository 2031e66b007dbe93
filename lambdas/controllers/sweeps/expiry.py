"""Claims older than their expireAfter."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from core.disruption.budgets import BudgetLedger, remaining
from core.disruption.expiration import expired, objections
from core.disruption.reasons import REASONS
from core.model.state_node import state_nodes
from lambdas.controllers.sweeps.letting_go import LettingGo
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
        ledger = BudgetLedger(remaining(view.snapshot, state_nodes(view.snapshot)))
        due = expired(view.snapshot)
        kept = objections(view.snapshot, due)

        def let_go(name: str) -> None:
            record = view.claims[name]
            pool = record.plan.node_pool
            if name in kept:
                round_.outcome.count("expiredButBlocked")
                round_.outcome.decide("skip", name, "ExpiredButBlocked", kept[name])
                return
            if not all(ledger.allows(pool, reason) for reason in REASONS):
                round_.outcome.count("expiredButBlocked")
                return
            ledger.take(pool)
            round_.outcome.decide("expire", name, "Expired", f"older than {record.plan.expire_after}")
            self._letting_go.begin(name, "Expired", "expireAfter has passed", round_.outcome)

        round_.each(due, let_go, subject=lambda name: name)
