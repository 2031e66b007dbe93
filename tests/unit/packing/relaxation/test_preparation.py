"""The common beginning of every search."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.problem import PackingProblem
from core.packing.relaxation.preparation import prepared, prepared_like, prepared_with_flexibility
from core.packing.search_budget import SearchBudget
from tests.unit.packing.problems import SETTINGS, of_every_size, of_families, with_large_pods


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


@pytest.mark.parametrize("seed", range(5))
def test_the_prices_of_like_pods_bound_the_cost_without_a_program(seed: int) -> None:
    """Weak duality holds for any resource prices; zones with the same mix of pods have nearly the same."""
    problem = with_large_pods(seed)
    other = replace(problem, counts=problem.counts + np.arange(len(problem.counts)) % 3)
    model, optimum = prepared(other, SETTINGS), prepared(problem, SETTINGS).fluid
    like = prepared_like(problem, model, SETTINGS)
    assert like is not None
    assert not like.is_relaxed
    assert 0.98 * optimum.lower_bound <= like.fluid.lower_bound <= optimum.lower_bound * (1 + 1e-6)
    assert like.fluid.machines.sum() == pytest.approx(optimum.machines.sum(), rel=0.2)


def test_prices_are_not_taken_over_from_other_types() -> None:
    problem = with_large_pods(0)
    expensive = replace(problem, prices=problem.prices * 2)
    assert prepared_like(problem, prepared(expensive, SETTINGS), SETTINGS) is None


def test_types_may_be_bundled_where_machines_hold_many_pods() -> None:
    """Bundles need the relaxation of these pods."""
    problem = of_equal_capacity()
    assert prepared_like(problem, prepared(problem, SETTINGS), SETTINGS) is None
