"""Emptiness: nodes without a pod that would miss them are deleted."""

from __future__ import annotations

from core.disruption.disruption_pass import Round
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def find(plan_round: Round) -> list[Command]:
    """A command for each empty node that budgets let go, the best ratio of price to disruption first, ties by name."""
    now, kept = plan_round.snapshot.now, plan_round.buffer_nodes
    empty = [
        c
        for c in plan_round.candidates(TerminationReason.EMPTY)
        if c.is_empty and not c.pool.is_static and c.is_consolidatable(now) and c.name not in kept
    ]
    ordered = sorted(empty, key=lambda c: (-c.savings_ratio, c.name))
    return [
        Command(
            reason=TerminationReason.EMPTY, method="emptiness", nodes=(c.name,), claims=(c.claim.name,), savings=c.price
        )
        for c in plan_round.within_budgets(ordered, TerminationReason.EMPTY)
    ]
