"""The lower bound from whole machines."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from core.packing.problem import PackingProblem
from core.packing.relaxation.fluid_lp import relax
from core.packing.whole_machine_bound import whole_machine_bound
from tests.unit.packing.problems import MILLS, SETTINGS, a_problem, with_small_pods


def bounded(problem: PackingProblem, cost: int) -> int:
    return whole_machine_bound(problem, cost=cost, settings=SETTINGS.whole_machine_bound)


def cheapest_cover(problem: PackingProblem, machines: int) -> int | None:
    """The least price of at most this many machines that offer what all pods request together; None if none do."""
    total = problem.counts @ problem.requests
    found = (
        list(types)
        for number in range(1, machines + 1)
        for types in itertools.combinations_with_replacement(range(len(problem.prices)), number)
    )
    prices = (
        int(problem.prices[types].sum()) for types in found if (problem.capacity[types].sum(axis=0) >= total).all()
    )
    return min(prices, default=None)


def test_it_is_the_price_of_whole_machines() -> None:
    """Parts of machines cost less: three vCPUs and 12 GiB are 1.5 small machines."""
    problem = a_problem([(1, 4)], [3])
    assert cheapest_cover(problem, 3) == 181 * MILLS
    assert bounded(problem, 192 * MILLS) == pytest.approx(181 * MILLS, rel=1e-4)
    assert bounded(problem, 192 * MILLS) <= 181 * MILLS
    assert relax(problem, SETTINGS).lower_bound < 150 * MILLS


@pytest.mark.parametrize("seed", range(8))
def test_it_is_about_the_fluid_relaxation_or_more(seed: int) -> None:
    """Parts of machines cost at most as much as whole ones; here only the solver's gap may make it less."""
    problem = with_small_pods(seed, items=3, pods=12)
    cheapest = cheapest_cover(problem, 5)
    assert cheapest is not None
    for cost in (cheapest, cheapest + 50 * MILLS, 3 * cheapest):
        assert relax(problem, SETTINGS).lower_bound * 0.99 < bounded(problem, cost) <= cheapest


@pytest.mark.parametrize("seed", range(10))
def test_no_set_of_machines_costs_less(seed: int) -> None:
    """If more types were left out than the known cost allows, some sets of the others would cost more than the cheapest of all.

    It fails if a machine is taken to cost twice its reduced cost more, or if reduced costs add what duals pay. It does not fail
    with all duals zero, where no type is left out too early, nor without the slack, which no draw that was tried needs.
    """
    dice = np.random.default_rng(seed)
    for _ in range(60):
        problem, cheapest = a_draw(dice)
        for excess in (1.0, 1.02, 1.1, 1.25, 1.5):
            assert bounded(problem, int(excess * cheapest)) <= cheapest


def a_draw(dice: np.random.Generator) -> tuple[PackingProblem, int]:
    """Pods of two resources on two to four types, and the least price of machines that offer as much: at most five."""
    while True:
        types = int(dice.integers(2, 5))
        problem = PackingProblem.of(
            requests=dice.integers(1, 1001, (3, 2)),
            counts=dice.integers(1, 8, 3),
            capacity=1000 * dice.integers(1, 9, (types, 2)),
            prices=dice.integers(20, 400, types) * MILLS,
            allowed=np.ones((3, types), dtype=np.bool_),
        )
        cheapest = cheapest_cover(problem, 5)
        if cheapest is not None and cheapest <= 6 * problem.prices.min():
            return problem, cheapest


def test_it_is_at_most_the_known_cost() -> None:
    """The types that are left out prove nothing below it."""
    problem = a_problem([(1, 4)], [3])
    assert bounded(problem, 100 * MILLS) == 100 * MILLS
