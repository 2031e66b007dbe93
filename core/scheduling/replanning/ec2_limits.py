"""Plans again where the account limits a plan: EC2 quotas and free addresses that it exceeds, commitments that may cover it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.scheduler import Solution

Extra = TypeVar("Extra")
"""What a plan comes with: its proven bound, or the pods that it displaces."""


def planned_within_ec2_limits(
    context: SchedulingContext, plan: Callable[[SchedulingContext], tuple[Solution, Extra]]
) -> tuple[SchedulingContext, tuple[Solution, Extra]]:
    """Return a plan within EC2's quotas and the free addresses, and its context.

    If the first plan exceeds one of them, further plans have it among their constraints.
    """
    found = plan(context)
    while (again := context.for_another_plan(found[0].claims)) is not None:
        context = again
        found = plan(context)
    return context, found


def commitment_contexts(context: SchedulingContext, gone: frozenset[int]) -> tuple[SchedulingContext, ...]:
    """Return the contexts to plan in: with commitments among the constraints, then with commitments applied afterwards."""
    return (context, context.with_commitments_last()) if any(context.remaining.uncommitted(gone)) else (context,)


def plan_rank(solution: Solution) -> tuple[int, int]:
    """Return the number of unplaced pods and nano-dollars per hour: the smallest is the best plan."""
    return sum(group.waiting for group in solution.unplaced), sum(claim.price for claim in solution.claims)
