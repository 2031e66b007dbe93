"""Shadow prices of machines' resources, and the bound on a load's value that they prove."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.column_generation.shadow_prices import ShadowPrices, load_value_bound, value_for_price_max
from tests.unit.packing.problems import CPU, MEMORY, MILLS, a_problem, best_values, with_values


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


def test_a_price_is_what_one_more_unit_of_the_resource_would_earn() -> None:
    """Worked out by hand: with 8 vCPU and 16 GiB, pods of 2 vCPU and 2 GiB and pods of 1 vCPU and 4 GiB fill both resources.

    With u for a vCPU and w for a GiB, 2u + 2w and u + 4w are a pod's value: u is a third of it and w a sixth.
    """
    problem = a_problem([(2, 2), (1, 4)], [9, 9])
    value = 600 * MILLS
    prices = ShadowPrices(problem).under(np.full(2, float(value)))
    per_cpu, per_gib, per_place = prices[3] * (CPU, MEMORY, 1)
    assert (per_cpu, per_gib, per_place) == pytest.approx((value / 3, value / 6, 0))
    # The first type has the same shape at a fourth of the size.
    assert prices[0] * (CPU, MEMORY, 1) == pytest.approx((value / 3, value / 6, 0))


def test_the_bound_is_the_value_of_the_best_load_if_pods_could_be_split() -> None:
    """On 8 vCPU and 16 GiB, 8/3 pods of each size; with 64 GiB, memory is no limit and 8 pods of 1 vCPU are the best."""
    problem, value = a_problem([(2, 2), (1, 4)], [9, 9]), 600.0 * MILLS
    values = np.full(2, value)
    bound = load_value_bound(
        problem, pods_max=problem.fit, item_values=values, resource_prices=ShadowPrices(problem).under(values)
    )
    assert (bound[3], bound[5]) == pytest.approx((16 / 3 * value, 8 * value))


def test_with_few_pods_left_capacity_is_worth_nothing() -> None:
    """One pod of 2 vCPU on 8 vCPU leaves room: another unit earns nothing, whatever the pod is worth."""
    problem = a_problem([(2, 2), (1, 4)], [9, 9])
    prices = ShadowPrices(problem)
    assert prices.under(np.full(2, 1e9))[3].any()
    assert not prices.under(np.full(2, 1e9), np.array([1, 0]))[3].any()
