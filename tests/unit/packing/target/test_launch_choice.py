"""The program is solved over promising types, not over the whole catalogue."""

from __future__ import annotations

import numpy as np

from core.packing.problem import PackingProblem
from core.packing.relaxation.fluid_lp import relax
from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.target.launch_choice import promising


def test_the_types_of_the_relaxation_are_few() -> None:
    sizes = np.arange(1, 101)
    problem = PackingProblem.of(
        requests=np.array([[1, 1]]),
        counts=np.array([500]),
        capacity=np.column_stack([sizes * 4, sizes * 4]),
        prices=sizes * 100 + np.where(sizes == 37, -5, 0),
        allowed=np.ones((1, 100), dtype=bool),
    )
    fluid = relax(problem, DEFAULT_SETTINGS)
    chosen = promising(problem, fluid)
    assert set(np.flatnonzero(fluid.machines > 1e-6)) <= set(chosen)
    assert len(chosen) <= DEFAULT_SETTINGS.target.next_best_types + 2 * DEFAULT_SETTINGS.target.cheapest_types + 3
