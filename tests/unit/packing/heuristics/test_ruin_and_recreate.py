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
