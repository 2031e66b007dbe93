"""The common beginning of every search."""

from __future__ import annotations

import numpy as np

from core.packing.problem import PackingProblem
from core.packing.relaxation.preparation import prepared, prepared_with_flexibility
from core.packing.search_budget import SearchBudget
from tests.unit.packing.problems import SETTINGS, of_every_size, of_families


def of_equal_capacity() -> PackingProblem:
    """Hundreds of nodes with dozens of pods each, on twenty types that differ only in their price."""
    problem = of_families(20).restricted(np.arange(60, 80))
    return PackingProblem.of(
        requests=problem.requests,
        counts=np.array([6_000, 3_000]),
        capacity=problem.capacity[np.zeros(20, dtype=np.int64)],
        prices=problem.prices,
        allowed=problem.allowed,
    )


def test_only_types_that_are_not_dominated_are_searched() -> None:
    ready = prepared(of_families(20), SETTINGS)
    assert len(ready.kept) == len(ready.reduced.prices) < len(ready.problem.prices)
    assert ready.reduced.prices.tolist() == ready.problem.prices[ready.kept].tolist()


def test_flexibility_costs_at_most_a_hundredth() -> None:
    problem = of_equal_capacity()
    flexible = prepared_with_flexibility(problem, SETTINGS, SearchBudget())
    assert flexible.problem is not problem
    plain = prepared(problem, SETTINGS).fluid.lower_bound
    assert plain <= flexible.fluid.lower_bound <= plain * 1.01


def test_types_are_planned_one_by_one_if_flexibility_costs_too_much() -> None:
    """With one type of each size, a bundle is as small as a machine several sizes smaller, or impossible."""
    problem = of_every_size(60, apart=60)
    assert prepared_with_flexibility(problem, SETTINGS, SearchBudget()).problem is problem
    few = of_families(3)
    plain = prepared(few, SETTINGS).fluid.lower_bound
    assert prepared_with_flexibility(few, SETTINGS, SearchBudget()).fluid.lower_bound == plain


def test_without_time_flexibility_is_given_up() -> None:
    """Otherwise, a second relaxation begins after the deadline."""
    problem = of_equal_capacity()
    assert prepared_with_flexibility(problem, SETTINGS, SearchBudget(None, lambda: True)).problem is problem
