"""The lower bound from whole machines."""

from __future__ import annotations

import itertools

import pytest

from core.packing.problem import PackingProblem
from core.packing.relaxation.fluid_lp import relax
from core.packing.whole_machine_bound import whole_machine_bound
from tests.unit.packing.problems import MILLS, SETTINGS, a_problem, with_small_pods


def bounded(problem: PackingProblem, cost: int) -> int:
    return whole_machine_bound(problem, cost=cost, settings=SETTINGS.whole_machine_bound)


def cheapest_cover(problem: PackingProblem, machines: int) -> int:
    """The least price of at most this many machines that offer what all pods request together."""
    total = problem.counts @ problem.requests
    found = (
        list(types)
        for number in range(1, machines + 1)
        for types in itertools.combinations_with_replacement(range(len(problem.prices)), number)
    )
    return min(
        int(problem.prices[types].sum()) for types in found if (problem.capacity[types].sum(axis=0) >= total).all()
    )


def test_it_is_the_price_of_whole_machines() -> None:
    """Parts of machines cost less: three vCPUs and 12 GiB are 1.5 small machines."""
    problem = a_problem([(1, 4)], [3])
    assert cheapest_cover(problem, 3) == 181 * MILLS
    assert bounded(problem, 192 * MILLS) == pytest.approx(181 * MILLS, rel=1e-4)
    assert bounded(problem, 192 * MILLS) <= 181 * MILLS
    assert relax(problem, SETTINGS).lower_bound < 150 * MILLS


@pytest.mark.parametrize("seed", range(8))
def test_it_holds_for_every_set_of_machines(seed: int) -> None:
    """Without a slack for the solver, or with duals of the wrong sign, it would exceed the cheapest set's price."""
    problem = with_small_pods(seed, items=3, pods=12)
    cheapest = cheapest_cover(problem, 5)
    for cost in (cheapest, cheapest + 50 * MILLS, 3 * cheapest):
        assert relax(problem, SETTINGS).lower_bound * 0.99 < bounded(problem, cost) <= cheapest


def test_it_is_at_most_the_known_cost() -> None:
    """The types that are left out prove nothing below it."""
    problem = a_problem([(1, 4)], [3])
    assert bounded(problem, 100 * MILLS) == 100 * MILLS
