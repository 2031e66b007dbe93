"""Bounds from whole loads: above the fluid one where machines hold few pods, never above what pods can be had for."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.column_generation.dual_bound import proven
from core.packing.column_generation.master_problem import Master
from core.packing.column_generation.substitution_columns import StandIns
from core.packing.optimize import improve
from core.packing.problem import Problem
from core.packing.relaxation.fluid_lp import relax
from core.packing.relaxation.preparation import prepared
from core.packing.search_budget import Budget
from tests.unit.packing.heaps import a_heavy_heap, a_problem, one_each
from tests.unit.packing.loads import all_loads


def bound_of(problem: Problem, *, steps: int = 5_000) -> int:
    known = improve(prepared(problem), one_each(problem), seed=1, budget=Budget(200)).packing
    return proven(problem, known, relax(problem).bound, np.random.default_rng(1), Budget(steps))


def test_pods_of_which_two_never_fit_together_cost_a_machine_each() -> None:
    problem = a_problem([(17, 33)], [10])
    assert relax(problem).bound < 0.6 * 10 * 1_360 * 10**6
    assert bound_of(problem) == pytest.approx(10 * 1_360 * 10**6, rel=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_no_packing_undercuts_the_bound_and_it_is_near(seed: int) -> None:
    problem = a_heavy_heap(seed)
    cost = improve(prepared(problem), one_each(problem), seed=1, budget=Budget(2_000)).packing.cost(problem)
    fluid, found = relax(problem).bound, bound_of(problem)
    assert fluid < found <= cost
    assert cost - found < 0.6 * (cost - fluid)


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_at_most_the_optimum_over_all_loads(seed: int) -> None:
    problem = a_heavy_heap(seed, classes=4, pods=16)
    loads = all_loads(problem)
    master = Master(problem, StandIns.of(problem))
    master.add(np.array([kind for kind, _ in loads]), np.array([load for _, load in loads]))
    optimum = master.solved(problem.counts).cost
    assert 0.995 * optimum < bound_of(problem) <= optimum * (1 + 1e-6)


def test_without_steps_the_bound_stays_as_it_was() -> None:
    problem = a_heavy_heap(1)
    assert bound_of(problem, steps=0) >= relax(problem).bound


def test_the_same_steps_prove_the_same() -> None:
    problem = a_heavy_heap(2)
    assert bound_of(problem, steps=60) == bound_of(problem, steps=60)
