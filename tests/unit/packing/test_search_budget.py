"""What a search may spend."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from core.packing.search_budget import SearchBudget


def test_a_budget_ends_by_steps_and_by_the_callers_word() -> None:
    """Otherwise, pods wait for a search that never ends."""
    budget = SearchBudget(2)
    assert [budget.step() for _ in range(3)] == [True, True, False]
    assert not SearchBudget(None, lambda: True).step()
    assert SearchBudget(None, lambda: False).step()


def test_a_step_that_ignores_time_still_counts() -> None:
    """Otherwise, a bound on steps does not bound the first stage."""
    budget = SearchBudget(1, lambda: True)
    assert [budget.step(ignore_time=True) for _ in range(2)] == [True, False]


def test_a_part_of_the_search_gets_its_share_of_the_time_that_is_left() -> None:
    """Otherwise, the first zone uses up the time of the others."""
    elapsed = 0.2

    def clock() -> float:
        return elapsed

    half = SearchBudget(None, clock).portion(0.5)
    assert half.step()
    elapsed = 0.59
    assert half.step()
    elapsed = 0.61
    assert not half.step()
    assert SearchBudget(None, clock).step()


@pytest.mark.parametrize(("elapsed", "goes_on"), [(lambda: False, True), (lambda: True, False)])
def test_a_caller_that_only_says_yes_or_no_bounds_parts_too(elapsed: Callable[[], float], goes_on: bool) -> None:
    """Such a caller knows no shares, and its deadline holds all the same."""
    assert SearchBudget(None, elapsed).portion(0.5).step() is goes_on


def test_parts_share_steps() -> None:
    """Otherwise, a run bounded by steps takes more of them the more zones there are."""
    whole = SearchBudget(10, None, 4)
    assert whole.portion(0.5).steps_max == 3
    assert whole.portion(1.0).steps_max == 6


def test_what_follows_the_search_has_its_time_set_aside() -> None:
    """Otherwise, a plan comes later than its caller has time for."""
    elapsed = 0.5
    whole = SearchBudget(10, lambda: elapsed, 4)
    less = whole.setting_aside(0.4)
    assert less.step()
    assert less.steps == 5
    elapsed = 0.6
    assert not less.step()
    assert whole.step()
    assert whole.setting_aside(1.0).is_spent
    steps_alone = SearchBudget(10)
    assert steps_alone.setting_aside(0.4) is steps_alone
