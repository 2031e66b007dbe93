"""Removes claims older than their expireAfter."""

from __future__ import annotations

from functools import partial

from core.disruption.conditions.expiration import expired
from core.lifecycle.draining.replacing import EXPIRED_WAITS, REPLACED_WITHIN
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from lambdas.controllers.sweeps.budgeted_termination import BudgetedTermination
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from lambdas.controllers.sweeps.sweep import ReconcileRound, Sweep


class Expiry(Sweep):
    """Terminates expired claims: within budgets, or regardless of them in NodePools that request it (docs/adr/0048).

    Either way replacements come first.
    """

    name = "expiry"

    def __init__(self, terminator: ClaimTerminator) -> None:
        self._terminator = terminator
        self._budgeted = BudgetedTermination(
            terminator=terminator,
            reason=TerminationReason.EXPIRED,
            blocked=ClaimReason.EXPIRED_BUT_BLOCKED,
            blocked_count="expiredButBlocked",
            waits=EXPIRED_WAITS,
        )

    def run(self, round_: ReconcileRound) -> None:
        """Remove the claims that must go, then those that may."""
        view = round_.view
        due = expired(view.snapshot)
        forceful = {pool.name for pool in view.snapshot.node_pools if pool.expires_forcefully}
        must = [name for name in due if view.claims[name].plan.node_pool in forceful]
        round_.each(must, partial(self._must_go, round_=round_), subject=lambda name: name)
        may = [name for name in due if name not in must]

        def report(name: str) -> None:
            message = f"older than {view.claims[name].plan.expire_after}"
            round_.report.decide(DecisionKind.EXPIRE, name, TerminationReason.EXPIRED, message)

        self._budgeted.begin(may, round_, message=lambda _: "expireAfter has passed", begun=report)

    def _must_go(self, name: str, *, round_: ReconcileRound) -> None:
        message = f"older than {round_.view.claims[name].plan.expire_after}, and its NodePool's expiry is forceful"
        self._terminator.begin(
            name,
            TerminationReason.EXPIRED_FORCEFULLY,
            message,
            round_.report,
            ends_at=round_.clock.now() + REPLACED_WITHIN,
        )
        round_.report.decide(DecisionKind.EXPIRE, name, TerminationReason.EXPIRED_FORCEFULLY, message)
