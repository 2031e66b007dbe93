"""Rounds the fluid relaxation over two types at a time.

Where hundreds of types cost the same for their capacity, the fluid solution mixes the smallest with the largest, and rounding
leaves gaps on all of them. Two types about as large as the average machine of the solution cost no more and fill evenly.
"""

from __future__ import annotations

import numpy as np

from core.packing.heuristics.guided_rounding import guided_rounding
from core.packing.problem import Ints, Packing, PackingProblem, right_sized
from core.packing.relaxation.fluid_lp import FluidSolution, relax
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings, TwoTypeSettings


def two_type_packings(
    problem: PackingProblem,
    fluid: FluidSolution,
    *,
    generator: np.random.Generator,
    budget: SearchBudget,
    settings: SearchSettings,
) -> list[Packing]:
    """Return the packings found, the cheapest first."""
    found: list[Packing] = []
    lost, limits = 0, settings.two_type
    bound_max = fluid.lower_bound * (1 + limits.loss_relative_max)
    for pair in _pairs(problem, fluid, limits):
        two_types = problem.restricted(pair)
        if not (two_types.fit.max(axis=1) > 0).all():
            continue
        is_done = len(found) == limits.pairs_rounded_max or lost == limits.pairs_lost_max
        if is_done or budget.is_spent:
            break
        relaxed = relax(two_types, settings)
        if relaxed.lower_bound > bound_max:
            lost += 1
        elif budget.step():
            rounded = guided_rounding(two_types, relaxed, (0,) * len(pair), generator=generator, settings=settings)
            found.append(right_sized(problem, rounded))
    return sorted(found, key=lambda packing: packing.cost(problem))


def _pairs(problem: PackingProblem, fluid: FluidSolution, settings: TwoTypeSettings) -> list[Ints]:
    """Return pairs of a type a little below the average machine's price (bound / Σ machines) and one a little above."""
    by_price = np.argsort(problem.prices, kind="stable")
    average = fluid.lower_bound / max(float(fluid.machines.sum()), 1.0)
    middle = int(np.searchsorted(problem.prices[by_price], average))
    cheaper = by_price[max(0, middle - settings.cheaper_types) : middle]
    expensive = by_price[middle : middle + settings.expensive_types]
    return [np.array([one, other]) for one in cheaper[::-1] for other in expensive]
