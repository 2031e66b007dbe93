"""Who took the places of a budget, and when a window gives more."""

from __future__ import annotations

from datetime import timedelta

from core.disruption.budgets.budget_explanation import budget_explanation
from core.model.node_pool import Budget, Disruption
from core.reasons.termination import TerminationReason
from tests.builders import NOW, a_pool

UNDERUTILIZED = TerminationReason.UNDERUTILIZED


def told(*budgets: Budget, going: tuple[str, ...] = ()) -> str:
    pool = a_pool("default", disruption=Disruption(budgets=budgets))
    return budget_explanation(pool, 40, UNDERUTILIZED, going, NOW)


def test_a_node_that_leaves_and_is_not_ready_is_named_once() -> None:
    text = told(Budget("3"), going=("a", "a", "b"))
    assert text.endswith("their places are taken by a (two places), b")


def test_nodes_that_take_the_places_are_named() -> None:
    """`No more nodes may go now` left open whether a command, a node that is not Ready or the budget itself was the cause."""
    text = told(Budget("10%"), going=("a", "b", "c", "d"))
    assert text == (
        "the disruption budgets of NodePool default let 4 of 40 nodes go for Underutilized now; "
        "their places are taken by a, b, c and 1 more"
    )


def test_all_are_named_as_long_as_they_are_few() -> None:
    assert told(Budget("10%"), going=("a", "b", "c")).endswith("; their places are taken by a, b, c")


def test_where_nobody_took_a_place_none_is_named() -> None:
    """Nor where the budget gives none: whoever goes just now did not take it."""
    assert told(Budget("10%")).endswith("let 4 of 40 nodes go for Underutilized now")
    assert told(Budget("0"), going=("a",)).endswith("let none of 40 nodes go for Underutilized now")


def test_the_next_window_that_lets_more_go_is_named() -> None:
    """Windows that allow as little as now, or something for another reason, are passed over."""
    lasting = timedelta(hours=1)
    closed = Budget("0", schedule="0 0 * * *", duration=timedelta(hours=23))
    drift = Budget("0", schedule="15 * * * *", duration=lasting, reasons=(TerminationReason.DRIFTED,))
    text = told(Budget("10%"), closed, drift)
    assert NOW.hour < 23
    assert text.startswith("the disruption budgets of NodePool default let none of 40 nodes go for Underutilized now; ")
    assert text.endswith(f"from {NOW:%Y-%m-%d}T23:00:00Z they let more go")


def test_a_budget_that_cannot_be_read_is_the_reason() -> None:
    assert "until this is corrected: spec.disruption.budgets[0]" in told(Budget("most"))
