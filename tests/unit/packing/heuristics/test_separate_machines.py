"""One machine for each pod."""

from __future__ import annotations

import numpy as np

from core.packing.heuristics.separate_machines import separate_cost, separate_packing
from core.packing.problem import PackingProblem


def a_problem() -> PackingProblem:
    """Three small and two large pods; the large machine is cheaper by capacity, the small one for a small pod."""
    return PackingProblem.of(
        requests=np.array([[1], [4]]),
        counts=np.array([3, 2]),
        capacity=np.array([[8], [4], [1]]),
        prices=np.array([70, 50, 20]),
        allowed=np.ones((2, 3), dtype=np.bool_),
    )


def test_every_pod_has_the_cheapest_machine_that_holds_it() -> None:
    packing = separate_packing(a_problem())
    packing.check(a_problem())
    assert packing.types.tolist() == [2, 2, 2, 1, 1]


def test_the_cost_is_known_before_the_machines_are_created() -> None:
    """Creating ten thousand machines only for their price would cost more than the search."""
    assert separate_cost(a_problem()) == separate_packing(a_problem()).cost(a_problem()) == 160
