"""The fluid relaxation and its bound."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.heuristics.guided_rounding import cuts, guided_rounding
from core.packing.problem import PackingProblem
from core.packing.relaxation.fluid_lp import relax
from tests.unit.packing.problems import SETTINGS, a_problem, cheapest_cost, of_every_size, of_families, with_small_pods

FEW_PAIRS = replace(SETTINGS, fluid=replace(SETTINGS.fluid, pairs_max=200))
ALL_TYPES = replace(SETTINGS, active_types=replace(SETTINGS.active_types, initial_types=10_000))


@pytest.mark.parametrize("seed", range(6))
def test_no_packing_undercuts_the_bound(seed: int) -> None:
    """Otherwise, the reported gap does not exist."""
    dice = np.random.default_rng(seed)
    sizes = [(float(dice.choice([0.5, 1, 3])), float(dice.choice([1, 4, 12]))) for _ in range(3)]
    problem = a_problem(sizes, [2, 1, 2])
    assert relax(problem, SETTINGS).lower_bound <= cheapest_cost(problem)


def test_a_perfect_fit_costs_its_machines() -> None:
    problem = a_problem([(1, 4)], [16])
    fluid = relax(problem, SETTINGS)
    assert fluid.lower_bound == pytest.approx(16 * 48 * 10**6, rel=1e-6)
    assert fluid.item_values.tolist() == pytest.approx([48 * 10**6], rel=1e-6)
    assert fluid.pods.sum() == pytest.approx(16)


@pytest.mark.parametrize("problem", [of_every_size(300, apart=80), of_families(20)], ids=["one price", "families"])
def test_a_few_active_types_prove_as_much_as_all(problem: PackingProblem) -> None:
    """Otherwise, the omitted types lower the bound, and the gap looks too wide."""
    tolerance = SETTINGS.active_types.reduced_cost_tolerance_relative
    few = relax(problem, SETTINGS).lower_bound
    assert few == pytest.approx(relax(problem, ALL_TYPES).lower_bound, rel=2 * tolerance)


def test_many_similar_items_are_merged_and_the_bound_still_holds() -> None:
    """Otherwise, a cluster of a thousand services waits for the solver, or gets a wrong bound."""
    problem = with_small_pods(1, items=120, pods=1200)
    exact, joined = relax(problem, SETTINGS), relax(problem, FEW_PAIRS)
    assert 0.97 * exact.lower_bound <= joined.lower_bound <= exact.lower_bound * (1 + 1e-6)
    assert np.allclose(joined.pods.sum(axis=1), problem.counts)
    cut = cuts(joined, SETTINGS.rounding)[0]
    guided_rounding(problem, joined, cut, generator=np.random.default_rng(0), settings=SETTINGS).check(problem)
