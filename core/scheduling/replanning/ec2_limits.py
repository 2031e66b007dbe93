"""Plans again where the account limits a plan: EC2 quotas and free addresses that it exceeds, commitments that may cover it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.solution import Solution
from core.scheduling.primitives.handles import RequirementId, TypeMask

Extra = TypeVar("Extra")
"""What a plan comes with: its proven bound, or the pods that it displaces."""


class _Restrictions(NamedTuple):
    """What commitments, quotas and addresses change about a claim."""

    claim: InFlightClaim
    reqs: RequirementId
    allowed: TypeMask
    commitment: str


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


def best_of(plans: Sequence[tuple[Solution, Extra]]) -> tuple[Solution, Extra]:
    """Return the best plan, the first among equals."""
    # Ranking a single plan would only compute its prices once more.
    return plans[0] if len(plans) == 1 else min(plans, key=lambda plan: plan_rank(plan[0]))


def plan_rank(solution: Solution) -> tuple[int, int]:
    """Return the number of unplaced pods and nano-dollars per hour: the smallest is the best plan."""
    return sum(group.waiting for group in solution.unplaced), sum(claim.price for claim in solution.claims)


def cheaper_within_ec2_limits(context: SchedulingContext, found: Solution, before: Solution) -> Solution | None:
    """Return the cheaper solution after commitments, EC2's quotas and free addresses have restricted the claims of both.

    Restrictions may make either one more expensive: a claim may lose the zone of its cheapest type.

    Args:
        context: The context of both.
        found: The result of a search that began with `before`. The two may share claims.
        before: The solution that it would replace.

    Returns:
        The solution, with its claims restricted. None if those of `found` exceed what is left; then no claim is changed.
    """
    if found is before:
        return before.settle_commitments()
    at_first = (*_restrictions(before), *_restrictions(found))
    is_allowed = context.for_another_plan(before.settle_commitments().claims) is None
    rank, restricted = plan_rank(before), _restrictions(before)
    _restore(at_first)
    if context.for_another_plan(found.settle_commitments().claims) is not None:
        _restore(at_first)
        return None
    if plan_rank(found) <= rank or not is_allowed:
        return found
    _restore(restricted)
    return before


def _restrictions(solution: Solution) -> tuple[_Restrictions, ...]:
    return tuple(_Restrictions(claim, claim.reqs, claim.allowed, claim.commitment) for claim in solution.claims)


def _restore(claims: Iterable[_Restrictions]) -> None:
    for claim, reqs, allowed, commitment in claims:
        claim.reqs, claim.allowed, claim.commitment = reqs, allowed, commitment
