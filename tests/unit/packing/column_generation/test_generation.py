"""Column generation."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.generation import ColumnGeneration
from core.packing.column_generation.master_problem import MasterProblem
from core.packing.column_generation.substitution_columns import Substitutions
from core.packing.problem import PackingProblem
from core.packing.relaxation.fluid_lp import relax
from core.packing.search_budget import SearchBudget
from tests.unit.packing.problems import SETTINGS, all_columns, one_pod_per_machine, with_large_pods


def optimum_over_all_columns(problem: PackingProblem) -> float:
    master = MasterProblem(problem, Substitutions.of(problem))
    master.add(all_columns(problem))
    return master.solved(problem.counts).cost


@pytest.mark.parametrize("seed", range(4))
def test_it_comes_near_the_optimum_over_all_columns(seed: int) -> None:
    """Otherwise, machines are launched in a mix that could be cheaper."""
    problem = with_large_pods(seed, items=4, pods=16)
    generation = ColumnGeneration(problem, np.random.default_rng(0), SETTINGS)
    generation.run(0, SearchBudget(200))
    optimum = optimum_over_all_columns(problem)
    assert optimum * (1 - 1e-6) <= generation.master.solved(problem.counts).cost <= optimum * 1.005


def test_without_steps_it_has_one_column_for_each_item() -> None:
    problem = with_large_pods(0)
    generation = ColumnGeneration(problem, np.random.default_rng(0), SETTINGS)
    generation.run(0, SearchBudget(0))
    assert len(generation.master.solved(problem.counts).machines) == len(problem.counts)


def test_dual_prices_cover_the_cost_of_the_master() -> None:
    problem = with_large_pods(1)
    generation = ColumnGeneration(problem, np.random.default_rng(0), SETTINGS)
    known = Columns.of_packing(one_pod_per_machine(problem))
    values = generation.item_values(known, relax(problem, SETTINGS).lower_bound, SearchBudget(50))
    assert values @ problem.counts == pytest.approx(generation.master.solved(problem.counts).cost)


@pytest.mark.parametrize("seed", range(3))
def test_it_ends_once_some_rounds_together_save_too_little(seed: int) -> None:
    """Rounds that save next to nothing take the time of the roundings that would."""
    problem = with_large_pods(seed)
    demanding = replace(SETTINGS.column_generation, saving_relative_min=0.5, stalled_rounds=4)
    budget, patient = SearchBudget(500), SearchBudget(500)
    settings = replace(SETTINGS, column_generation=demanding)
    assert ColumnGeneration(problem, np.random.default_rng(0), settings).run(0, budget, with_beam=True)
    ColumnGeneration(problem, np.random.default_rng(0), SETTINGS).run(0, patient, with_beam=True)
    assert budget.steps == demanding.stalled_rounds + 1 < patient.steps


def test_it_ends_at_a_cost_that_no_packing_undercuts() -> None:
    """With the master's own cost as the bound, there is nothing to gain: one round finds out."""
    problem = with_large_pods(1)
    generation = ColumnGeneration(problem, np.random.default_rng(0), SETTINGS)
    generation.run(0, SearchBudget(100))
    cost, budget = generation.master.solved(problem.counts).cost, SearchBudget(100)
    assert not generation.run(int(cost), budget)
    assert budget.steps == 1


def test_beam_search_finds_columns_where_greedy_knapsacks_find_none() -> None:
    problem = with_large_pods(2)
    greedy, beam = (ColumnGeneration(problem, np.random.default_rng(0), SETTINGS) for _ in range(2))
    greedy.run(0, SearchBudget(200))
    beam.run(0, SearchBudget(200), with_beam=True)
    costs = [one.master.solved(problem.counts).cost for one in (greedy, beam)]
    assert costs[1] <= costs[0]
