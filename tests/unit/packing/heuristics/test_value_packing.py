"""Packing by value."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.heuristics.value_packing import greedy_loads, pack_by_value
from core.packing.problem import Packing, PackingProblem
from core.packing.relaxation.fluid_lp import relax
from tests.unit.packing.problems import MILLS, SETTINGS, a_problem, with_large_pods


def packed(problem: PackingProblem, noise_log: float = 0.0) -> Packing:
    return pack_by_value(
        problem,
        demand=problem.counts,
        item_values=relax(problem, SETTINGS).item_values,
        generator=np.random.default_rng(0),
        settings=SETTINGS.value_packing,
        noise_log=noise_log,
    )


def test_a_load_that_fits_the_demand_several_times_is_repeated() -> None:
    """Otherwise, a thousand equal pods take a thousand steps."""
    problem = a_problem([(1, 4)], [64])
    packing = packed(problem)
    packing.check(problem)
    assert packing.cost(problem) == 8 * 384 * MILLS


@pytest.mark.parametrize("noise_log", [0.0, 0.3])
def test_every_pod_is_packed(noise_log: float) -> None:
    problem = with_large_pods(3)
    packed(problem, noise_log).check(problem)


def test_a_greedy_knapsack_takes_items_in_its_order() -> None:
    problem = a_problem([(1, 1), (0.5, 1)], [5, 5])
    pods_max = np.minimum(problem.fit, problem.counts[:, None]).astype(float)
    order = np.array([[[0], [1]], [[1], [0]]])  # [rank, knapsack, any type]
    taken = greedy_loads(problem, demand=problem.counts, pods_max=pods_max, order=order)
    assert taken[:, 0, 0].tolist() == [2, 0]  # two vCPU hold two of the first
    assert taken[:, 1, 0].tolist() == [4, 0]  # or four of the second
    assert taken[:, 0, 3].tolist() == [5, 5]
