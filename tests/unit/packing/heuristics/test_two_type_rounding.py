"""Rounding with two types at a time."""

from __future__ import annotations

import numpy as np

from core.packing.heuristics.guided_rounding import cuts, guided_rounding
from core.packing.heuristics.two_type_rounding import two_type_packings
from core.packing.problem import Packing
from core.packing.relaxation.fluid_lp import relax
from core.packing.relaxation.preparation import prepared
from core.packing.search_budget import SearchBudget
from tests.unit.packing.problems import SETTINGS, of_every_size

PROBLEM = prepared(of_every_size(200, apart=60), SETTINGS).reduced


def found(budget: SearchBudget) -> list[Packing]:
    fluid, dice = relax(PROBLEM, SETTINGS), np.random.default_rng(0)
    return two_type_packings(PROBLEM, fluid, generator=dice, budget=budget, settings=SETTINGS)


def test_two_sizes_near_the_average_round_better_than_the_smallest_with_the_largest() -> None:
    """If every size costs the same per capacity, the solver's mix leaves gaps on machines of all sizes."""
    packings = found(SearchBudget(40))
    for packing in packings:
        packing.check(PROBLEM)
    costs = [packing.cost(PROBLEM) for packing in packings]
    assert costs == sorted(costs)
    fluid, dice = relax(PROBLEM, SETTINGS), np.random.default_rng(0)
    of_all_types = [
        guided_rounding(PROBLEM, fluid, cut, generator=dice, settings=SETTINGS).cost(PROBLEM)
        for cut in cuts(fluid, SETTINGS.rounding)
    ]
    assert costs[0] < min(of_all_types)


def test_without_steps_there_is_none() -> None:
    assert found(SearchBudget(0)) == []


def test_no_more_pairs_are_rounded_than_column_generation_needs() -> None:
    budget = SearchBudget(40)
    assert len(found(budget)) == budget.steps == SETTINGS.two_type.pairs_rounded_max
