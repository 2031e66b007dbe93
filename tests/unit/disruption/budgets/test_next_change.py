"""The next moment at which a budget changes, as `status` shows it."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.disruption.budgets.next_change import next_change
from core.disruption.budgets.node_pool_budgets import allowed
from core.model.node_pool import Budget, Disruption, NodePool
from core.reasons.termination import BUDGETED
from tests.builders import NOW, a_pool

HOUR = timedelta(hours=1)
NODES = 20


def a_pool_with(*budgets: Budget) -> NodePool:
    return a_pool(disruption=Disruption(budgets=budgets))


@pytest.mark.parametrize(
    "budgets",
    [
        (Budget(nodes="0", schedule="30 3 * * *", duration=90 * timedelta(minutes=1)),),
        (Budget(nodes="10%"), Budget(nodes="0", schedule="0 9 * * mon-fri", duration=8 * HOUR)),
        (
            Budget(nodes="0", schedule="0 * * * *", duration=timedelta(minutes=50), reasons=("Drifted",)),
            Budget(nodes="3", schedule="15 6 * * *", duration=HOUR, reasons=("Empty", "Underutilized")),
        ),
        (Budget(nodes="2"), Budget(nodes="5", schedule="@hourly", duration=timedelta(minutes=10))),
        (Budget(nodes="0", schedule="0 0 * * *", duration=24 * HOUR),),
    ],
)
def test_it_is_the_first_minute_with_another_number(budgets: tuple[Budget, ...]) -> None:
    """A check of the budgets minute by minute gives the same."""
    pool = a_pool_with(*budgets)

    def let_go(minute: int) -> dict[str, int | None]:
        return {reason: allowed(pool, NODES, reason, NOW + timedelta(minutes=minute)) for reason in BUDGETED}

    now = let_go(0)
    first = next((minute for minute in range(1, 25 * 60) if let_go(minute) != now), None)
    found = next_change(pool, NODES, NOW)
    if first is None:
        assert found is None
    else:
        assert found is not None
        assert (found.at, found.allowed) == (NOW + timedelta(minutes=first), let_go(first))


def test_an_unreadable_budget_has_no_next_change() -> None:
    assert next_change(a_pool_with(Budget(nodes="0", schedule="0 25 * * *", duration=HOUR)), NODES, NOW) is None
    assert next_change(a_pool_with(Budget(nodes="1")), NODES, NOW) is None
