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
    """Find the longest run of the best candidates that can go together, by bisection as in Karpenter."""
    candidates = disruption_pass.budgets.within(underutilized(disruption_pass), TerminationReason.UNDERUTILIZED)
    low, high = 1, min(len(candidates), NODES_MAX) - 1
    best: Command | None = None
    while low <= high and not disruption_pass.is_exhausted:
        middle = (low + high) // 2
        found = consolidated(candidates[: middle + 1], disruption_pass, method="multi")
        if isinstance(found, Refusal):
            high = middle - 1
        else:
            best, low = found, middle + 1
    return [best] if best is not None else []
