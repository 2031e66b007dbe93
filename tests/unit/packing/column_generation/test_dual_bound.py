"""Dual bounds from whole loads: above the fluid bound where machines hold few pods, and never above a packing's cost."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.column_generation.dual_bound import dual_bound
from core.packing.column_generation.master_problem import MasterProblem
from core.packing.column_generation.substitution_columns import Substitutions
from core.packing.optimize import improve
from core.packing.problem import Packing, PackingProblem
from core.packing.relaxation.fluid_lp import relax
from core.packing.relaxation.preparation import prepared
from core.packing.search_budget import SearchBudget
from tests.unit.packing.problems import MILLS, SETTINGS, a_problem, all_columns, one_pod_per_machine, with_large_pods


def packed(problem: PackingProblem, steps: int) -> Packing:
    ready, budget = prepared(problem, SETTINGS), SearchBudget(steps)
    return improve(ready, one_pod_per_machine(problem), seed=1, budget=budget, settings=SETTINGS).packing


def bound_of(problem: PackingProblem, *, steps: int = 5_000) -> int:
    return dual_bound(
        problem,
        packed(problem, 200),
        lower_bound=relax(problem, SETTINGS).lower_bound,
        generator=np.random.default_rng(1),
        budget=SearchBudget(steps),
        settings=SETTINGS,
    )


def test_pods_that_never_fit_together_cost_a_machine_each() -> None:
    problem = a_problem([(17, 33)], [10])
    assert relax(problem, SETTINGS).lower_bound < 0.6 * 10 * 1_360 * MILLS
    assert bound_of(problem) == pytest.approx(10 * 1_360 * MILLS, rel=1e-3)


def test_a_load_a_byte_too_large_is_not_the_best() -> None:
    """The solver tolerates a millionth of a machine: the bound stayed at half, with the load that no machine holds."""
    gib = 1 << 30
    problem = PackingProblem.of(
        requests=np.array([[1_000, 32 * gib], [1_000, 32 * gib + 1]]),
        counts=np.array([5, 5]),
        capacity=np.array([[8_000, 64 * gib]]),
        prices=np.array([1_000_000]),
        allowed=np.ones((2, 1), dtype=np.bool_),
    )
    # Two of the smaller pods share a machine, none of the others shares one: 3 + 5 machines, 2.5 + 5 where they may be split.
    assert bound_of(problem) == pytest.approx(7_500_000, rel=1e-3)


@pytest.mark.parametrize("seed", range(6))
def test_no_packing_undercuts_the_bound_and_it_is_near(seed: int) -> None:
    problem = with_large_pods(seed)
    cost = packed(problem, 2_000).cost(problem)
    fluid, found = relax(problem, SETTINGS).lower_bound, bound_of(problem)
    assert fluid < found <= cost
    assert cost - found < 0.6 * (cost - fluid)


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_at_most_the_optimum_over_all_columns(seed: int) -> None:
    problem = with_large_pods(seed, items=4, pods=16)
    master = MasterProblem(problem, Substitutions.of(problem))
    master.add(all_columns(problem))
    optimum = master.solved(problem.counts).cost
    assert 0.995 * optimum < bound_of(problem) <= optimum * (1 + 1e-6)


def test_without_steps_the_bound_is_unchanged() -> None:
    problem = with_large_pods(1)
    assert bound_of(problem, steps=0) >= relax(problem, SETTINGS).lower_bound


def test_the_same_steps_give_the_same_bound() -> None:
    problem = with_large_pods(2)
    assert bound_of(problem, steps=60) == bound_of(problem, steps=60)


def test_types_are_solved_exactly_only_while_steps_are_left() -> None:
    """Each is a search of its own: without a bound, the planner would not end at its deadline."""
    gib = 1 << 30
    problem = PackingProblem.of(
        requests=np.array([[1_000, 33 * gib], [1_000, 34 * gib]]),
        counts=np.array([5, 5]),
        capacity=np.array([[8_000, 66 * gib]]),
        prices=np.array([1_000_000]),
        allowed=np.ones((2, 1), dtype=np.bool_),
    )
    assert bound_of(problem, steps=0) < 0.8 * bound_of(problem)
