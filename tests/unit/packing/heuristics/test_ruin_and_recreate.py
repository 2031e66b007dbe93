"""Large-neighbourhood search."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.heuristics.ruin_and_recreate import RuinAndRecreate, promising_types
from core.packing.problem import Packing, PackingProblem
from core.packing.relaxation.fluid_lp import relax
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings
from tests.unit.packing.problems import SETTINGS, one_pod_per_machine, with_large_pods, with_small_pods


def with_share_of_exchanges(share: float) -> SearchSettings:
    return replace(SETTINGS, ruin_and_recreate=replace(SETTINGS.ruin_and_recreate, exchange_share=share))


def searched(
    problem: PackingProblem, start: Packing, budget: SearchBudget, settings: SearchSettings = SETTINGS
) -> Packing:
    fluid, dice = relax(problem, settings), np.random.default_rng(0)
    return RuinAndRecreate(problem, fluid, generator=dice, budget=budget, settings=settings).improved(start)


@pytest.mark.parametrize("share", [0.0, 0.9, 1.0], ids=["by value", "both", "exchanges"])
@pytest.mark.parametrize("seed", range(2))
def test_every_pod_stays_packed_and_the_cost_falls(share: float, seed: int) -> None:
    """Otherwise, pods are lost with the machines that are emptied."""
    problem = with_large_pods(seed, items=8, pods=40)
    start = one_pod_per_machine(problem)
    found = searched(problem, start, SearchBudget(60), with_share_of_exchanges(share))
    found.check(problem)
    assert found.cost(problem) < start.cost(problem)


def test_without_steps_nothing_changes() -> None:
    problem = with_small_pods(1)
    start = one_pod_per_machine(problem)
    assert searched(problem, start, SearchBudget(0)) is start


def test_a_search_without_savings_ends() -> None:
    """Otherwise, a pod waits for steps that find nothing."""
    problem = with_large_pods(0, items=3, pods=9)
    settings = replace(SETTINGS, ruin_and_recreate=replace(SETTINGS.ruin_and_recreate, idle_steps_max=5))
    budget = SearchBudget(100_000)
    best = searched(problem, one_pod_per_machine(problem), budget, settings)
    assert budget.steps < 2_000
    again = SearchBudget(100_000)
    assert searched(problem, best, again, settings).cost(problem) <= best.cost(problem)


def test_types_that_the_relaxation_uses_are_promising() -> None:
    problem = with_small_pods(1)
    fluid = relax(problem, SETTINGS)
    bought = np.flatnonzero(fluid.machines > 1e-6)
    assert set(bought.tolist()) <= set(promising_types(problem, fluid, 1).tolist())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("count", [1, 3])
def test_types_with_the_best_value_for_their_price_are_promising(seed: int, count: int) -> None:
    """Value for price of a type: its best load of one kind of pod, at what the relaxation says that a pod is worth."""
    problem = with_large_pods(seed)
    fluid = relax(problem, SETTINGS)
    values = [
        max(fit * value for fit, value in zip(column, fluid.item_values, strict=True)) for column in problem.fit.T
    ]
    density = np.array(values) / problem.prices
    best = sorted(range(len(density)), key=lambda one: -density[one])[:count]
    found = set(promising_types(problem, fluid, count).tolist())
    assert found == {*best, *np.flatnonzero(fluid.machines > 1e-6).tolist()}


@pytest.mark.parametrize("seed", range(3))
def test_a_poor_packing_comes_near_the_bound(seed: int) -> None:
    """Machines with the least value for their price are opened again; from one pod a machine, most of the excess goes."""
    problem = with_large_pods(seed, items=6, pods=40)
    start, bound = one_pod_per_machine(problem), relax(problem, SETTINGS).lower_bound
    found = searched(problem, start, SearchBudget(300))
    assert found.cost(problem) - bound < 0.25 * (start.cost(problem) - bound)
