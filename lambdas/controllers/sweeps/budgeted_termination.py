"""Terminates claims for one reason, within what budgets and pods allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

from core.disruption.conditions.expiration import objections
from core.reasons.claim import ClaimReason
from core.reasons.decision import DecisionKind
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason
from lambdas.controllers.budget_places import BudgetPlaces
from lambdas.controllers.sweeps.claim_terminator import ClaimTerminator
from lambdas.controllers.sweeps.sweep import ReconcileRound


@dataclass(frozen=True, kw_only=True)
class BudgetedTermination:
    """Terminations for one reason.

    Attributes:
        terminator: Begins each of them.
        reason: Why the claims are removed.
        blocked: The decision that is reported for a claim that a pod or an annotation keeps.
        blocked_count: Name of the count of claims that stay because of pods, annotations or budgets.
        waits: How long the drain may wait for replacements.
    """

    terminator: ClaimTerminator
    reason: TerminationReason
    blocked: ClaimReason
    blocked_count: str
    waits: timedelta

    def begin(
        self,
        names: Sequence[str],
        round_: ReconcileRound,
        *,
        message: Callable[[str], str],
        begun: Callable[[str], None] | None = None,
    ) -> None:
        """Begin the terminations that nothing prevents; `begun` is called for each. An error affects one claim only.

        For each NodePool whose budgets keep claims, one line of the report says which nodes use them and when they allow more.
        """
        kept = objections(round_.view.snapshot, names)
        if not names:
            return
        places = BudgetPlaces(round_.view, self.reason, round_.clock)
        waiting = Counter[str]()

        def terminate(name: str) -> None:
            if name in kept:
                round_.report.decide(DecisionKind.SKIP, name, self.blocked, kept[name])
            elif self.terminator.begin_within(
                name, self.reason, message(name), places.now, round_.report, ends_at=round_.clock.now() + self.waits
            ):
                if begun is not None:
                    begun(name)
                return
            else:
                waiting[round_.view.claims[name].plan.node_pool] += 1
            round_.report.count(self.blocked_count)

        round_.each(names, terminate, subject=str)
        for pool, nodes in sorted(waiting.items()):
            explanation = f"{nodes} nodes wait for their turn: {places.explanation(pool)}"
            round_.report.decide(DecisionKind.SKIP, pool, NodeReason.BUDGET, explanation)
