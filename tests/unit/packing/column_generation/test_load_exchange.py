"""Loads of greedy knapsacks are improved by exchanging single pods."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.column_generation.greedy_pricing import knapsack_loads
from core.packing.column_generation.load_exchange import exchanged_loads
from core.packing.column_generation.shadow_prices import ShadowPrices
from core.packing.problem import Floats, Ints, PackingProblem
from core.packing.size_settings import LoadExchangeSettings
from tests.unit.packing.problems import SETTINGS, a_problem, with_values


def greedy(problem: PackingProblem, values: Floats) -> Ints:
    return knapsack_loads(
        problem,
        problem.counts,
        chosen_by=values,
        resource_prices=ShadowPrices(problem).under(values),
        generator=np.random.default_rng(0),
        settings=SETTINGS.greedy_pricing,
    )


def exchanged(problem: PackingProblem, values: Floats, loads: Ints, *, best: int = 20, most: int = 10) -> Ints:
    settings = LoadExchangeSettings(loads=best, exchanges_max=most)
    return exchanged_loads(problem, problem.counts, loads, item_values=values, settings=settings)


def ranked(problem: PackingProblem, values: Floats, loads: Ints) -> tuple[Ints, Ints]:
    """The loads in the order in which they are improved, and their types."""
    types = np.arange(len(loads)) % len(problem.prices)
    best = np.argsort(-(loads @ values) / problem.prices[types], kind="stable")
    return loads[best], types[best]


@pytest.mark.parametrize("seed", range(5))
def test_loads_are_worth_no_less_and_still_fit_their_machine(seed: int) -> None:
    problem, values = with_values(seed)
    before, types = ranked(problem, values, greedy(problem, values))
    found = exchanged(problem, values, greedy(problem, values), best=len(before))
    assert (found @ values >= before @ values).all()
    assert (found >= 0).all()
    assert (found @ problem.requests <= problem.capacity[types]).all()
    assert (found <= np.minimum(problem.fit[:, types].T, problem.counts)).all()


def test_a_pod_is_exchanged_for_a_larger_one_that_fills_the_rest() -> None:
    """Two vCPU: the densest pod leaves a rest of 0.8 in which nothing fits, and the other one fills the machine."""
    problem, values = a_problem([(1.2, 1), (2, 1)], [1, 1]), np.array([7.0, 10.0])
    loads = np.tile(np.array([1, 0]), (len(problem.prices), 1))
    assert [0, 1] in exchanged(problem, values, loads, best=8).tolist()
    assert (exchanged(problem, values, loads, best=8, most=0) == loads).all()


def test_a_pod_is_added_where_there_is_room_and_no_more_than_there_are() -> None:
    problem, values = a_problem([(1, 1)], [3]), np.array([1.0])
    nothing = np.zeros((len(problem.prices), 1), dtype=np.int64)
    found = exchanged(problem, values, nothing, best=8)
    assert found.ravel().tolist() == [2, 2, 2, 3, 3, 3, 3, 3]


def test_no_pod_joins_more_of_its_kind_than_a_machine_may_hold() -> None:
    problem, values = a_problem([(1, 1)], [3], per_machine_max=[1]), np.array([1.0])
    nothing = np.zeros((len(problem.prices), 1), dtype=np.int64)
    assert (exchanged(problem, values, nothing, best=8) == 1).all()


def test_only_the_best_loads_are_improved() -> None:
    problem, values = with_values(0)
    assert len(exchanged(problem, values, greedy(problem, values), best=3)) == 3
