"""Emptiness: deletes nodes without pods that need a new place."""

from __future__ import annotations

from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for each empty node that budgets let go, highest ratio of price to disruption first, ties by name."""
    now, kept = disruption_pass.snapshot.now, disruption_pass.buffer_nodes
    empty = [
        c
        for c in disruption_pass.candidates(TerminationReason.EMPTY)
        if c.is_empty and not c.pool.is_static and c.is_consolidatable(now) and c.name not in kept
    ]
    ordered = sorted(empty, key=lambda c: (-c.savings_ratio, c.name))
    return [
        Command(
            reason=TerminationReason.EMPTY, method="emptiness", nodes=(c.name,), claims=(c.claim.name,), savings=c.price
        )
        for c in disruption_pass.budgets.within(ordered, TerminationReason.EMPTY)
    ]
