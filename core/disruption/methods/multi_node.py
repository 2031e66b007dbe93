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
    """Find the longest run of the best candidates that can go together: all of them, or what bisection finds (Karpenter).

    Bisection assumes that a run can go if a longer one can. The longest is tried first because a replacement of its size may
    save where the next smaller one costs as much as the shorter run.
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
