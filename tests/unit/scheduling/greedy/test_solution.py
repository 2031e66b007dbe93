"""The result of one plan."""

from __future__ import annotations

from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.plan_state import PlanState
from core.scheduling.greedy.solution import Solution
from core.scheduling.topology.domain_counts import DomainCounts
from tests.builders import a_pod, a_snapshot


def a_state() -> PlanState:
    context = SchedulingContext(a_snapshot(pods=(a_pod("a"),)))
    return PlanState(context, DomainCounts(context.topology), context.plan_constraints(()))


def test_unplaced_pods_were_refused_before_virtual_pods_took_room() -> None:
    """Virtual pods come last: a reason that counts them would blame a buffer for a pod that it did not displace."""
    before, after = a_state(), a_state()
    without = Solution([], [], [], after)
    assert (without.refusing_state, Solution([], [], [], after, before).refusing_state) == (after, before)


def test_without_commitments_settling_changes_nothing() -> None:
    solution = Solution([], [], [], a_state())
    assert solution.settle_commitments() is solution
    assert not solution.claims
