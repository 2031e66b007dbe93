"""The budget of a search."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.packing.search_budget import SearchBudget


def test_a_budget_ends_by_steps_and_by_the_callers_clock() -> None:
    """Otherwise, pods wait for a search that never ends."""
    budget = SearchBudget(2)
    assert [budget.step() for _ in range(3)] == [True, True, False]
    assert not SearchBudget(None, lambda: True).step()
    assert SearchBudget(None, lambda: False).step()


def test_spent_steps_are_not_the_clocks() -> None:
    """Otherwise, what is cheap to finish stops with the steps, or goes on after the deadline."""
    assert not SearchBudget(0).time_is_over
    assert not SearchBudget(0, lambda: 0.99).time_is_over
    assert SearchBudget(5, lambda: 1.0).time_is_over


def test_a_step_that_ignores_time_still_counts() -> None:
    """Otherwise, a bound on steps does not bound the first stage."""
    budget = SearchBudget(1, lambda: True)
    assert [budget.step(ignore_time=True) for _ in range(2)] == [True, False]


def test_the_clock_stops_all_parts_at_the_same_share() -> None:
    """Otherwise, the result of a part depends on the machine's speed, even with enough time."""
    elapsed = 0.2

    def clock() -> float:
        return elapsed

    part = SearchBudget(10, clock).portion(0.5)
    assert part.step()
    elapsed = 0.99
    assert part.step()
    elapsed = 1.0
    assert not part.step()


@pytest.mark.parametrize(("elapsed", "goes_on"), [(lambda: False, True), (lambda: True, False)])
def test_a_callers_yes_or_no_clock_bounds_parts_too(elapsed: Callable[[], float], goes_on: bool) -> None:
    """Such a caller knows no shares, but its deadline holds."""
    assert SearchBudget(None, elapsed).portion(0.5).step() is goes_on


def test_parts_share_steps() -> None:
    """Otherwise, with more zones a search bounded by steps takes more of them."""
    whole = SearchBudget(10, None, 4)
    assert whole.portion(0.5).steps_max == 3
    assert whole.portion(1.0).steps_max == 6
