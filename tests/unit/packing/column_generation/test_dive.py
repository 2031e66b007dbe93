"""The dive, which fixes columns one after the other."""

from __future__ import annotations

from typing import Final

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.dive import Diving
from core.packing.problem import Packing, PackingProblem
from core.packing.relaxation.fluid_lp import relax
from core.packing.search_budget import SearchBudget
from tests.unit.packing.problems import MILLS, SETTINGS, a_problem, one_pod_per_machine, with_large_pods

NO_MORE_DIVES: Final = replace(SETTINGS.diving, idle_dives_max=0, beam_items_max=0)


def dived(problem: PackingProblem, steps: int, known: list[Packing] | None = None) -> Packing:
    diving = Diving(problem, np.random.default_rng(0), SearchBudget(steps), SETTINGS)
    return diving.packing([Columns.of_packing(one) for one in known or []], relax(problem, SETTINGS).lower_bound)


def test_pods_that_never_fit_together_get_a_machine_each() -> None:
    """The fluid plan would split them, and rounding it would cost more than the obvious plan."""
    problem = a_problem([(1.1, 2), (5, 10)], [40, 40])
    packing = dived(problem, 50)
    packing.check(problem)
    pairs = 40 * 340 * MILLS  # one of each on eight vCPU, and a second small one is free
    assert packing.cost(problem) <= pairs


@pytest.mark.parametrize("steps", [1, 2, 5, 9, 14, 20, 30])
def test_an_interrupted_search_still_packs_every_pod(steps: int) -> None:
    """Otherwise, a deadline leaves pods without a node."""
    problem = with_large_pods(5)
    dived(problem, steps).check(problem)


def test_it_begins_with_the_loads_of_known_packings() -> None:
    problem = with_large_pods(2)
    best = dived(problem, 80)
    assert dived(problem, 3, [best]).cost(problem) <= dived(problem, 3).cost(problem)
    assert best.cost(problem) < one_pod_per_machine(problem).cost(problem)


@pytest.mark.parametrize("seed", [1, 4, 5])
def test_dives_end_by_themselves_and_what_they_find_is_near_the_bound(seed: int) -> None:
    """A search without a bound on its steps must end, too: each dive that saves nothing counts."""
    problem, budget = with_large_pods(seed), SearchBudget()
    fluid = relax(problem, SETTINGS).lower_bound
    found = Diving(problem, np.random.default_rng(0), budget, SETTINGS).packing([], fluid)
    found.check(problem)
    assert 10 < budget.steps < 400
    assert found.cost(problem) < 0.97 * dived(problem, 1).cost(problem)


def test_a_search_that_is_done_is_not_continued_by_beam_search() -> None:
    """One type and one kind of pod: the first dive costs what the bound says, and no step more is taken."""
    problem, budget = a_problem([(1, 1)], [4]), SearchBudget()
    diving = Diving(problem, np.random.default_rng(0), budget, SETTINGS)
    best = diving.packing([], relax(problem, SETTINGS).lower_bound)
    assert diving.is_closed(best)
    assert not diving.is_closed(one_pod_per_machine(a_problem([(1, 1)], [4])))
    assert budget.steps < 20


@pytest.mark.parametrize("seed", [1, 2])
def test_a_dive_that_is_near_enough_generates_no_columns_and_is_the_last(seed: int) -> None:
    """Most of a large zone's time would go into columns for the remaining pods of every dive (ADR 261)."""
    problem = with_large_pods(seed)
    bound = relax(problem, SETTINGS).lower_bound

    def loads_and_steps(stop_gap_relative: float, **limits: int) -> tuple[int, int]:
        generation = replace(SETTINGS.column_generation, stop_gap_relative=stop_gap_relative)
        settings = replace(SETTINGS, column_generation=generation, diving=replace(SETTINGS.diving, **limits))
        budget = SearchBudget(60)
        diving = Diving(problem, np.random.default_rng(0), budget, settings)
        diving.packing([], bound)
        return len(diving.loads(0.0)), budget.steps

    near, far = 0.08, SETTINGS.column_generation.stop_gap_relative
    assert loads_and_steps(near) == loads_and_steps(near, pricing_rounds=0) == loads_and_steps(near, idle_dives_max=0)
    assert loads_and_steps(far) != loads_and_steps(far, pricing_rounds=0)
    assert loads_and_steps(far)[1] > 3 * loads_and_steps(near)[1]


@pytest.mark.parametrize("seed", range(6))
def test_dives_that_keep_most_machines_pack_every_pod_and_never_cost_more_than_the_first(seed: int) -> None:
    """A target's dives after the first pack only the pods of the machines that are worth least again."""
    problem = with_large_pods(seed)
    settings = replace(SETTINGS, kept_machines=SETTINGS.target.kept_machines)
    fluid = relax(problem, SETTINGS).lower_bound
    diving = Diving(problem, np.random.default_rng(0), SearchBudget(120), settings)
    found = diving.packing([], fluid)
    found.check(problem)
    first = Diving(problem, np.random.default_rng(0), SearchBudget(120), replace(settings, diving=NO_MORE_DIVES))
    assert found.cost(problem) <= first.packing([], fluid).cost(problem)


@pytest.mark.parametrize(("seed", "near"), [(0, 0.08), (1, 0.06)])
def test_later_dives_generate_columns_even_if_the_program_is_near_enough(seed: int, near: float) -> None:
    """The first dive was not near enough: with the same columns, the next ones would hardly be."""
    problem = with_large_pods(seed)
    bound = relax(problem, SETTINGS).lower_bound
    generation = replace(SETTINGS.column_generation, stop_gap_relative=near)

    def loads(**limits: int) -> int:
        diving = replace(SETTINGS.diving, beam_items_max=0, **limits)
        settings = replace(SETTINGS, column_generation=generation, diving=diving)
        search = Diving(problem, np.random.default_rng(0), SearchBudget(60), settings)
        search.packing([], bound)
        return len(search.loads(0.0))

    assert loads() > loads(pricing_rounds=0)
