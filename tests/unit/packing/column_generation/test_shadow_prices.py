"""Shadow prices of machines' resources, and the bound on a load's value that they prove."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.column_generation.shadow_prices import ShadowPrices, load_value_bound, value_for_price_max
from tests.unit.packing.problems import best_values, with_values


@pytest.mark.parametrize("seed", range(5))
def test_no_load_has_more_value_than_the_bound(seed: int) -> None:
    """Otherwise, the search drops columns of negative reduced cost, and the lower bound is wrong."""
    problem, values = with_values(seed)
    prices = ShadowPrices(problem).under(values)
    pods_max = np.minimum(problem.fit, problem.counts[:, None])
    bound = load_value_bound(problem, pods_max=pods_max, item_values=values, resource_prices=prices)
    best = best_values(problem, values)
    assert (bound >= best * (1 - 1e-9)).all()
    ratio = value_for_price_max(problem, demand=problem.counts, item_values=values, resource_prices=prices)
    assert ratio >= (best / problem.prices).max() * (1 - 1e-9)


def test_the_bound_holds_for_any_prices_and_is_tightest_for_shadow_prices() -> None:
    problem, values = with_values(0)
    pods_max = np.minimum(problem.fit, problem.counts[:, None])
    prices = ShadowPrices(problem).under(values)
    at_best = load_value_bound(problem, pods_max=pods_max, item_values=values, resource_prices=prices)
    for factor in (0.0, 0.5, 2.0):
        other = load_value_bound(problem, pods_max=pods_max, item_values=values, resource_prices=prices * factor)
        assert (other >= at_best * (1 - 1e-9)).all()


def test_prices_follow_what_is_left_of_the_pods() -> None:
    """Otherwise, the last steps of a dive choose pods by what would be worth taking at its beginning."""
    problem, values = with_values(1)
    prices = ShadowPrices(problem)
    whole = prices.under(values)
    assert not prices.under(values, np.zeros_like(problem.counts)).any()
    assert np.allclose(prices.under(values), whole)


def test_prices_follow_values() -> None:
    """Otherwise, column generation uses the values of its first round."""
    problem, values = with_values(1)
    prices = ShadowPrices(problem)
    assert np.allclose(prices.under(values * 2), 2 * prices.under(values))
    assert not prices.under(values * 0).any()
