"""A budget that was closed for a migration stays closed, and nobody notices that nothing drifts or is consolidated."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core.disruption.budgets.closed_budgets import closed_for_long
from core.model.node_pool import Budget, Disruption
from tests.builders import NOW, a_pool


@pytest.mark.parametrize(
    ("budgets", "is_closed"),
    [
        ((Budget(nodes="0"),), True),
        ((Budget(nodes="nonsense"),), True),
        ((Budget(nodes="10%"),), False),
        ((), False),
        ((Budget(nodes="0", reasons=("Underutilized", "Empty")),), False),
        ((Budget(nodes="0", schedule="0 0 * * *", duration=timedelta(hours=24)),), True),
        ((Budget(nodes="0", schedule="0 0 * * *", duration=timedelta(hours=23)),), False),
        ((Budget(nodes="0", schedule="0 8 * * mon-fri", duration=timedelta(hours=12)),), False),
    ],
)
def test_a_pool_is_closed_when_no_moment_of_a_week_lets_a_node_go(budgets: tuple[Budget, ...], is_closed: bool) -> None:
    pool = a_pool("frozen", disruption=Disruption(budgets=budgets))
    assert closed_for_long([pool], NOW) == (("frozen",) if is_closed else ())
