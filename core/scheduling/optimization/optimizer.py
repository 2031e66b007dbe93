"""Makes the greedy plan cheaper and proves how far from the cheapest it may be."""

from __future__ import annotations

from typing import Final

from core.model.plan import Cost
from core.packing.search_budget import Budget
from core.scheduling.context import SchedulingContext
from core.scheduling.greedy.scheduler import Solution
from core.scheduling.optimization.relaxed_pods import Relaxed

PODS_MIN: Final = 30
CLAIMS_MIN: Final = 2
"""Below both, the greedy plan stands unless its cost is far from what arithmetic can prove."""

FAR: Final = (6, 5)
"""Cost over bound from which a handful of pods is worth loading the solver for."""

ROUGH_OFFERS_MAX: Final = 6000
"""With more kinds of pods by types, arithmetic in Python takes longer than loading the solver."""


def improved(context: SchedulingContext, solution: Solution, budget: Budget | None) -> tuple[Solution, Cost]:
    """The plan, made cheaper within the budget, and what it costs at the least.

    Without a budget nothing is searched, and the bound is left out where it takes a solver.
    """
    relaxed, cost = Relaxed(context, solution), _cost(solution)
    rough = relaxed.rough() if relaxed.offers <= ROUGH_OFFERS_MAX else None
    is_small = sum(relaxed.counts.values()) < PODS_MIN and len(solution.claims) < CLAIMS_MIN
    is_near = rough is not None and (rough == cost or (is_small and cost * FAR[1] < rough * FAR[0]))
    if budget is None or not solution.claims or is_near or budget.is_spent:  # asking starts its clock: loading counts
        return solution, Cost(cost, rough)
    from core.scheduling.optimization.lower_bound import LeastCost
    from core.scheduling.optimization.repacker import Repack

    least = LeastCost(context, relaxed)
    anew = Repack(context, budget).improved(solution)
    found = _cost(anew)
    return anew, Cost(found, max(rough or 0, least.proven(anew.claims, found, budget)))


def _cost(solution: Solution) -> int:
    return sum(claim.price for claim in solution.claims)
