"""The pricing problem by beam search."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.column_generation.beam_pricing import BeamPricing
from core.packing.column_generation.columns import Columns
from core.packing.column_generation.shadow_prices import ShadowPrices
from core.packing.problem import Floats, PackingProblem
from core.packing.search_settings import BeamPricingSettings
from tests.unit.packing.problems import SETTINGS, best_values, with_values


def found(
    problem: PackingProblem,
    values: Floats,
    settings: BeamPricingSettings = SETTINGS.beam_pricing,
    *,
    ratio: float = SETTINGS.column_generation.value_per_price_min,
) -> Columns:
    prices = ShadowPrices(problem).under(values)
    beam = BeamPricing(
        problem,
        problem.counts,
        item_values=values,
        resource_prices=prices,
        value_per_price_min=ratio,
        settings=settings,
    )
    return beam.columns()


@pytest.mark.parametrize("seed", range(5))
def test_it_finds_the_best_load_of_every_type(seed: int) -> None:
    """Near the optimum, greedy knapsacks find nothing more; without the beam, a few per cent are left."""
    problem, values = with_values(seed)
    columns = found(problem, values)
    best = best_values(problem, values)
    of_value = np.flatnonzero(best > problem.prices * 1.001)
    assert of_value.size
    for type_index in of_value:
        assert (columns.loads[columns.types == type_index] @ values).max() == pytest.approx(best[type_index])
    assert (columns.loads @ problem.requests <= problem.capacity[columns.types]).all()
    assert (columns.loads <= np.minimum(problem.fit[:, columns.types].T, problem.counts)).all()


def test_a_narrow_beam_finds_fewer_columns_that_still_fit() -> None:
    problem, values = with_values(0)
    narrow = replace(SETTINGS.beam_pricing, states_max=1, types_max=2, columns_per_type_max=1)
    columns = found(problem, values, narrow)
    assert len(columns) <= 2
    assert (columns.loads @ problem.requests <= problem.capacity[columns.types]).all()


def test_items_without_value_form_no_column() -> None:
    problem, values = with_values(0)
    assert len(found(problem, values * 0)) == 0


@pytest.mark.parametrize("ratio", [1.05, 1.2, 1.6])
def test_no_column_is_worth_less_than_asked_for_its_price(ratio: float) -> None:
    """Columns nearer to their price are noise: the master problem grows and does not improve."""
    problem, values = with_values(0)
    values = values * 1.5
    best = best_values(problem, values)
    worth = np.flatnonzero(best > problem.prices * ratio)
    columns = found(problem, values, ratio=ratio)
    assert set(columns.types.tolist()) == set(worth.tolist())
    assert (columns.loads @ values > problem.prices[columns.types] * ratio).all()


def test_a_resource_that_only_single_pods_request_is_counted() -> None:
    """One accelerator and two pods for it: together they would be worth the machine, which holds but one of them."""
    problem = PackingProblem.of(
        requests=np.array([[1, 1], [1, 1]]),
        counts=np.array([1, 1]),
        capacity=np.array([[4, 1]]),
        prices=np.array([10]),
        allowed=np.ones((2, 1), dtype=np.bool_),
    )
    assert len(found(problem, np.array([8.0, 8.0]))) == 0
    assert found(problem, np.array([11.0, 8.0])).loads.tolist() == [[1, 0]]


@pytest.mark.parametrize("values", [(5.0, 4.0, 3.0), (3.0, 5.0, 4.0), (4.0, 3.0, 5.0)])
def test_the_narrowest_beam_keeps_the_best_partial_load(values: tuple[float, ...]) -> None:
    """Two pods of each kind, of which four fit: those of the two kinds that are worth most."""
    problem = PackingProblem.of(
        requests=np.ones((3, 1), dtype=np.int64),
        counts=np.array([2, 2, 2]),
        capacity=np.array([[4], [4]]),
        prices=np.array([10, 11]),
        allowed=np.ones((3, 2), dtype=np.bool_),
    )
    narrow = replace(SETTINGS.beam_pricing, states_max=2, states_per_type_max=1, columns_per_type_max=1)
    columns = found(problem, np.array(values), narrow)
    assert columns.types.tolist() == [0, 1]
    assert columns.loads.tolist() == [[2 * (value > 3) for value in values]] * 2
