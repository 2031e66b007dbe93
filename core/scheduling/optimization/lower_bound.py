"""What new nodes for a plan's pods cost at the least."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.packing.column_generation.dual_bound import proven
from core.packing.optimize import is_coarse
from core.packing.problem import Packing, resized
from core.packing.relaxation.fluid_lp import relax
from core.packing.search_budget import Budget
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.relaxed_pods import Relaxed
from core.scheduling.optimization.subproblems.packing_columns import problem_of


class LeastCost:
    """The packing problem that a plan's pods are at least, and bounds from it.

    Attributes:
        bound: Nano-dollars per hour that no new nodes for these pods undercut, by the fluid relaxation.
    """

    def __init__(self, context: SchedulingContext, relaxed: Relaxed) -> None:
        problem = problem_of(context.templates, relaxed.counts, relaxed.rows)
        self._seed = context.snapshot.options.seed
        self._relaxed = relaxed
        self._problem = problem.restricted(problem.undominated())
        self.bound = relax(self._problem).bound

    def proven(self, claims: Sequence[InFlightClaim], cost: int, budget: Budget) -> int:
        """A bound no lower than `bound`, from the loads of these claims at this cost; the same where any machine is free."""
        is_priced = bool(self._problem.prices.all())  # worth is measured by price
        if budget.is_spent or not is_priced or not is_coarse(self._problem, self.bound, cost, len(claims)):
            return self.bound
        loads = np.array([self._relaxed.load(claim) for claim in claims], dtype=np.int64)
        known = resized(self._problem, Packing(np.zeros(len(loads), dtype=np.int64), loads))
        return proven(self._problem, known, self.bound, np.random.default_rng(self._seed), budget)
