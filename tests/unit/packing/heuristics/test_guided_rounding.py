"""Rounding the fluid solution to whole machines."""

from __future__ import annotations

import numpy as np

from core.packing.heuristics.guided_rounding import cuts, guided_rounding
from core.packing.relaxation.fluid_lp import FluidSolution, relax
from tests.unit.packing.problems import SETTINGS, SIZES, a_problem, with_small_pods


def test_every_way_of_rounding_packs_every_pod() -> None:
    """Otherwise, a pod is lost between two stages."""
    problem = with_small_pods(2)
    fluid = relax(problem, SETTINGS)
    tried = cuts(fluid, SETTINGS.rounding)
    assert len(tried) > 1
    for cut in tried:
        dice = np.random.default_rng(0)
        guided_rounding(problem, fluid, cut, generator=dice, settings=SETTINGS).check(problem)


def test_the_first_rounding_is_complete_and_later_ones_leave_more_out() -> None:
    fluid = relax(with_small_pods(2), SETTINGS)
    left_out = [sum(cut) for cut in cuts(fluid, SETTINGS.rounding)]
    assert left_out[0] == 0
    assert left_out == sorted(left_out)
    assert len(left_out) <= SETTINGS.rounding.cuts_max


def test_items_that_the_program_covers_twice_are_packed_once() -> None:
    """The program may cover items without value more than once; otherwise, some are planned for twice."""
    problem = a_problem([(1, 4)], [8])
    machines, pods = np.zeros(len(SIZES)), np.zeros((1, len(SIZES)))
    machines[[3, 4]], pods[0, [3, 4]] = 2.0, 8.0
    twice = FluidSolution(0, machines, pods, np.zeros(1), np.zeros((1, 1)))
    dice = np.random.default_rng(0)
    guided_rounding(problem, twice, (0, 0), generator=dice, settings=SETTINGS).check(problem)
