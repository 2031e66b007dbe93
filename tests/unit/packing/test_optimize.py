"""The stages of a search together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from core.packing.optimize import OptimizedPacking, improve, is_coarse, round_only
from core.packing.problem import Packing, PackingProblem
from core.packing.relaxation.preparation import prepared
from core.packing.search_budget import SearchBudget
from tests.unit.packing.problems import (
    SETTINGS,
    SIZES,
    a_problem,
    cheapest_cost,
    one_pod_per_machine,
    with_large_pods,
    with_small_pods,
)


def improved(problem: PackingProblem, *, steps: int, seed: int = 0, start: Packing | None = None) -> OptimizedPacking:
    before = one_pod_per_machine(problem) if start is None else start
    ready = prepared(problem, SETTINGS)
    return improve(ready, before, seed=seed, budget=SearchBudget(steps), settings=SETTINGS)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("make", "steps"), [(with_small_pods, 200), (with_large_pods, 120)])
def test_the_search_comes_close_to_the_bound(make: Callable[[int], PackingProblem], steps: int, seed: int) -> None:
    """Otherwise, money is wasted; GPU clusters cost seven per cent more."""
    problem = make(seed)
    found = improved(problem, steps=steps)
    found.packing.check(problem)
    assert found.lower_bound <= found.packing.cost(problem) <= found.lower_bound * 1.06


@pytest.mark.parametrize("steps", [0, 1, 20])
def test_a_good_packing_never_costs_more(steps: int) -> None:
    """Otherwise, a later stage discards the result of an earlier one."""
    problem = with_small_pods(7)
    good = improved(problem, steps=300).packing
    again = improved(problem, steps=steps, seed=1, start=good).packing
    assert again.cost(problem) <= good.cost(problem)


def test_the_same_seed_and_steps_give_the_same_packing() -> None:
    """Otherwise, a run cannot be repeated."""
    problem = with_small_pods(3)
    one, two = (improved(problem, steps=60, seed=5).packing for _ in range(2))
    assert one.types.tolist() == two.types.tolist()
    assert one.loads.tolist() == two.loads.tolist()


def test_rounding_alone_packs_every_pod_and_never_costs_more_than_the_incumbent() -> None:
    problem = with_small_pods(4)
    before = one_pod_per_machine(problem)
    ready = prepared(problem, SETTINGS)
    found = round_only(ready, before, seed=0, budget=SearchBudget(50), settings=SETTINGS)
    found.packing.check(problem)
    assert found.packing.cost(problem) < before.cost(problem)
    whole = improve(ready, before, seed=0, budget=SearchBudget(50), settings=SETTINGS)
    assert whole.packing.cost(problem) <= found.packing.cost(problem)


def test_pods_stay_where_they_may_run() -> None:
    """Otherwise, a pod is placed on an architecture that it was not built for."""
    may = [[size < 4 for size in range(len(SIZES))], [size >= 4 for size in range(len(SIZES))]]
    problem = a_problem([(0.5, 1), (0.5, 1)], [40, 40], allowed=may)
    packing = improved(problem, steps=100).packing
    assert (packing.loads[packing.types < 4, 1] == 0).all()
    assert (packing.loads[packing.types >= 4, 0] == 0).all()


def test_caps_hold_for_every_machine() -> None:
    """Otherwise, two replicas with anti-affinity share a machine."""
    problem = a_problem([(0.5, 1), (0.4, 1), (1.5, 7)], [30, 30, 8], per_machine_max=[1, 2, 0])
    packing = improved(problem, steps=100).packing
    packing.check(problem)
    assert packing.loads[:, 0].max() == 1
    assert packing.loads[:, 1].max() <= 2
    assert packing.cost(problem) < one_pod_per_machine(problem).cost(problem)


@pytest.mark.parametrize("seed", range(6))
def test_small_problems_are_packed_near_the_optimum(seed: int) -> None:
    dice = np.random.default_rng(seed)
    sizes = [(float(dice.choice([0.5, 1, 3])), float(dice.choice([1, 4, 12]))) for _ in range(3)]
    problem = a_problem(sizes, [2, 1, 2])
    cheapest = cheapest_cost(problem)
    found = improved(problem, steps=100)
    assert found.lower_bound <= cheapest <= found.packing.cost(problem) <= cheapest * 1.1


def test_column_generation_is_for_wide_gaps_on_machines_that_hold_few_pods() -> None:
    problem = a_problem([(1, 2)], [60])
    stages = SETTINGS.stages
    assert is_coarse(problem, lower_bound=100, cost=103, machines=2, settings=stages)
    assert not is_coarse(problem, lower_bound=100, cost=101, machines=2, settings=stages)
    assert not is_coarse(problem, lower_bound=100, cost=103, machines=1, settings=stages)


def test_column_generation_begins_with_known_loads() -> None:
    """Otherwise, what one zone's search found is searched again for every other zone."""
    problem = with_large_pods(1)
    ready, before = prepared(problem, SETTINGS), one_pod_per_machine(problem)
    thorough = improve(ready, before, seed=0, budget=SearchBudget(60), settings=SETTINGS)
    afresh, with_loads = (
        improve(ready, before, seed=1, budget=SearchBudget(3), settings=SETTINGS, loads=loads).packing.cost(problem)
        for loads in (None, thorough.loads)
    )
    assert with_loads < afresh
