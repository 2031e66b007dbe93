"""Multi-node consolidation: replaces several nodes by one cheaper node, or by none."""

from __future__ import annotations

from typing import Final

from core.disruption.consolidation.consolidation import consolidated
from core.disruption.consolidation.eligibility import underutilized
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command
from core.reasons.refusal import Refusal
from core.reasons.termination import TerminationReason

NODES_MAX: Final = 101
"""Most nodes of one command: Karpenter's 100 counts from zero."""


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """Find the longest prefix of the best candidates that can go together: all of them, or the result of bisection (Karpenter).

    Bisection assumes that a prefix can go if a longer one can. The longest is tried first: its replacement may save money where
    the next smaller instance type costs as much as the nodes of a shorter prefix.
    """
    candidates = disruption_pass.budgets.within(underutilized(disruption_pass), TerminationReason.UNDERUTILIZED)
    low, high = 2, min(len(candidates), NODES_MAX)
    best: Command | None = None
    count = high
    while low <= high and not disruption_pass.is_exhausted:
        found = consolidated(candidates[:count], disruption_pass, method="multi")
        if isinstance(found, Refusal):
            high = count - 1
        else:
            best, low = found, count + 1
        count = (low + high) // 2
    return [best] if best is not None else []
