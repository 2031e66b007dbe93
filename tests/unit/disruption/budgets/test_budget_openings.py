"""When closed budgets open next, so that `disrupt` neither runs for nothing all week nor misses a window."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from core.disruption.budgets.budget_openings import AHEAD, PoolNodes, may_any_go, wakes_at
from core.disruption.budgets.node_pool_budgets import allowed
from core.model.node_pool import Budget, Disruption, NodePool
from core.reasons.termination import BUDGETED
from tests.builders import a_pool

SATURDAY = datetime(2026, 11, 21, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
CLOSED_BUT_SUNDAYS = Budget("0", schedule="0 8 * * sun", duration=165 * HOUR)
"""Open on Sundays from five to eight."""

TEN = {"default": PoolNodes(10, 0)}


def pool(*budgets: Budget, after: timedelta | None = None) -> NodePool:
    return a_pool(disruption=Disruption(budgets=budgets, consolidate_after=after))


def test_a_closed_window_allows_no_disruption_and_its_end_is_known() -> None:
    """With an hour of consolidateAfter, pods are looked at an hour before the window opens."""
    closed = [pool(CLOSED_BUT_SUNDAYS, after=HOUR)]
    assert not may_any_go(closed, TEN, BUDGETED, SATURDAY)
    sunday_five = SATURDAY.replace(day=22, hour=5)
    assert wakes_at(closed, TEN, BUDGETED, SATURDAY) == sunday_five - HOUR - AHEAD
    assert may_any_go(closed, TEN, BUDGETED, sunday_five)


def test_budgets_that_are_used_up_allow_no_disruption() -> None:
    tenth = [pool(Budget("10%"))]
    assert may_any_go(tenth, TEN, BUDGETED, SATURDAY)
    assert not may_any_go(tenth, {"default": PoolNodes(10, 1)}, BUDGETED, SATURDAY)
    assert wakes_at(tenth, TEN, BUDGETED, SATURDAY) is None


def test_one_open_reason_is_enough() -> None:
    assert may_any_go([pool(Budget("0", reasons=("Underutilized",)))], TEN, BUDGETED, SATURDAY)


def test_a_pool_without_nodes_needs_no_run() -> None:
    assert not may_any_go([pool(Budget("100%"))], {}, BUDGETED, SATURDAY)


def test_an_unreadable_budget_stays_closed() -> None:
    odd = [pool(Budget("all"))]
    assert not may_any_go(odd, TEN, BUDGETED, SATURDAY)
    assert wakes_at(odd, TEN, BUDGETED, SATURDAY) is None


@pytest.mark.parametrize(
    "budgets",
    [
        (CLOSED_BUT_SUNDAYS,),
        (
            Budget("0", schedule="30 9 * * mon-fri", duration=8 * HOUR),
            Budget("0", schedule="0 17 * * *", duration=HOUR),
        ),
        (Budget("0", schedule="* * * * *", duration=HOUR / 60),),
        (Budget("0", schedule="5-10 0 1,22 * *", duration=30 * HOUR), Budget("3", schedule="@daily", duration=HOUR)),
    ],
)
def test_no_moment_is_missed_at_which_a_node_may_go(budgets: tuple[Budget, ...]) -> None:
    """Law: between any moment and the next opening that the function returns for it, no budget allows a disruption."""
    pools, moment, end = [pool(*budgets)], SATURDAY, SATURDAY + timedelta(days=9)
    while moment < end:
        if may_any_go(pools, TEN, BUDGETED, moment):
            moment += timedelta(minutes=7)
            continue
        until = wakes_at(pools, TEN, BUDGETED, moment)
        assert until is not None
        until = min(until + AHEAD, end)
        assert until > moment
        while moment < until:
            assert all(allowed(pools[0], 10, reason, moment) == 0 for reason in BUDGETED), moment
            moment += timedelta(minutes=11)
        moment = until
