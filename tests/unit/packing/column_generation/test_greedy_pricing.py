"""The pricing problem by greedy knapsacks."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.greedy_pricing import greedy_columns
from core.packing.column_generation.shadow_prices import ShadowPrices
from core.packing.problem import Floats, PackingProblem
from core.packing.search_settings import GreedyPricingSettings
from tests.unit.packing.problems import SETTINGS, with_values


def found(
    problem: PackingProblem, values: Floats, settings: GreedyPricingSettings = SETTINGS.greedy_pricing
) -> Columns:
    return greedy_columns(
        problem,
        problem.counts,
        chosen_by=values,
        judged_by=values,
        resource_prices=ShadowPrices(problem).under(values),
        value_per_price_min=1.0,
        generator=np.random.default_rng(0),
        settings=settings,
    )


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
