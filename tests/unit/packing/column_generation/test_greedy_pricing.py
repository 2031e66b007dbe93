"""The pricing problem by greedy knapsacks."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.greedy_pricing import best_columns, knapsack_loads
from core.packing.column_generation.shadow_prices import ShadowPrices
from core.packing.problem import Floats, PackingProblem
from core.packing.size_settings import GreedyPricingSettings
from tests.unit.packing.problems import SETTINGS, a_problem, with_values


def found(
    problem: PackingProblem,
    values: Floats,
    settings: GreedyPricingSettings = SETTINGS.greedy_pricing,
    filled: PackingProblem | None = None,
) -> Columns:
    filled = problem if filled is None else filled
    loads = knapsack_loads(
        filled,
        problem.counts,
        chosen_by=values,
        resource_prices=ShadowPrices(filled).under(values),
        generator=np.random.default_rng(0),
        settings=settings,
    )
    return best_columns(problem, loads, judged_by=values, value_per_price_min=1.0, columns_max=settings.columns_max)


@pytest.mark.parametrize("seed", range(5))
def test_columns_fit_and_are_worth_more_than_their_price(seed: int) -> None:
    """Otherwise, the master problem gets impossible machines, or columns that do not improve it."""
    problem, values = with_values(seed)
    columns = found(problem, values)
    assert len(columns)
    assert (columns.loads @ values > problem.prices[columns.types]).all()
    assert (columns.loads @ problem.requests <= problem.capacity[columns.types]).all()
    assert (columns.loads <= np.minimum(problem.fit[:, columns.types].T, problem.counts)).all()


def test_the_best_columns_come_first_and_not_too_many() -> None:
    problem, values = with_values(0)
    columns = found(problem, values)
    ratio = (columns.loads @ values) / problem.prices[columns.types]
    assert ratio.tolist() == sorted(ratio, reverse=True)
    assert len(found(problem, values, replace(SETTINGS.greedy_pricing, columns_max=2))) == 2


def test_a_load_that_leaves_room_gets_the_cheapest_type() -> None:
    """Otherwise, the master problem pays for the machine that a load was found for, and a plan seems too expensive."""
    problem = a_problem([(1.1, 2)], [3])
    large = problem.restricted(np.array([6]))
    columns = found(problem, problem.prices[6:7] / 3.0, filled=large)
    assert set(columns.loads.ravel().tolist()) == {3}
    assert set(columns.types.tolist()) == {problem.cheapest_type(np.array([3]))} == {3}
