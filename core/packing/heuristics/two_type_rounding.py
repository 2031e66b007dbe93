"""Rounds the fluid solution over two types at a time.

Where hundreds of types cost the same for their room, the fluid solution mixes the smallest with the largest, and rounding
that leaves gaps everywhere. Two sizes about as large as its average machine lose nothing and fill evenly.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from core.packing.heuristics.guided_rounding import guided_fill
from core.packing.problem import Ints, Packing, Problem, resized
from core.packing.relaxation.fluid_lp import Fluid, relax
from core.packing.search_budget import Budget

BELOW: Final = 3
ABOVE: Final = 4
"""How many types on each side of the average price are tried with each other."""

LOSS_MAX: Final = 0.005
"""Pairs whose own fluid solution costs so much more than the bound are not rounded."""


def by_pairs(problem: Problem, fluid: Fluid, generator: np.random.Generator, budget: Budget) -> list[Packing]:
    """The packings found, the cheapest first."""
    found: list[Packing] = []
    for pair in _pairs(problem, fluid):
        market = problem.restricted(pair)
        if not (market.fit.max(axis=1) > 0).all():
            continue
        if budget.is_spent:
            break
        alone = relax(market)
        if alone.bound <= fluid.bound * (1 + LOSS_MAX) and budget.step():
            filled = guided_fill(market, alone, generator, (0,) * len(pair))
            found.append(resized(problem, filled))
    return sorted(found, key=lambda packing: packing.cost(problem))


def _pairs(problem: Problem, fluid: Fluid) -> list[Ints]:
    """Types a little below the average machine's price with types a little above, near ones first."""
    by_price = np.argsort(problem.prices, kind="stable")
    average = fluid.bound / max(float(fluid.machines.sum()), 1.0)
    middle = int(np.searchsorted(problem.prices[by_price], average))
    below, above = by_price[max(0, middle - BELOW) : middle], by_price[middle : middle + ABOVE]
    return [np.array([one, other]) for one in below[::-1] for other in above]
