"""Computes a lower bound on the cost of new nodes for a plan's pods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.packing.column_generation.dual_bound import dual_bound
from core.packing.optimize import is_coarse
from core.packing.problem import Packing, right_sized
from core.packing.relaxation.fluid_lp import relax
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings
from core.packing.whole_machine_bound import whole_machine_bound
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.context import SchedulingContext
from core.scheduling.optimization.relaxed_pods import RelaxedPods
from core.scheduling.optimization.subproblems.packing_columns import problem_of


class LowerBound:
    """The packing problem of a plan's pods with most rules relaxed, and its bounds.

    Attributes:
        fluid: The bound by the fluid relaxation, in nano-dollars per hour.
    """

    def __init__(self, context: SchedulingContext, relaxed: RelaxedPods, settings: SearchSettings) -> None:
        problem = problem_of(context.templates, counts=relaxed.counts, hostname_capacity=relaxed.hostname_capacity)
        self._seed = context.snapshot.options.seed
        self._settings = settings
        self._relaxed = relaxed
        self._problem = problem.restricted(problem.undominated())
        self.fluid = relax(self._problem, settings).lower_bound

    def proven(self, claims: Sequence[InFlightClaim], *, cost: int, budget: SearchBudget) -> int:
        """Return a bound no lower than `fluid`; column generation begins with the loads of these claims, at this cost.

        It equals `fluid` if that is near the cost, the time is over, or a machine costs nothing: columns need prices. Whole
        machines take no step, columns need some.
        """
        if budget.time_is_over or not self._problem.prices.all():
            return self.fluid
        bound = max(self.fluid, self._of_whole_machines(len(claims), cost))
        is_far = is_coarse(
            self._problem,
            lower_bound=bound,
            cost=cost,
            machines=len(claims),
            settings=self._settings.stages,
        )
        if budget.is_spent or not is_far:
            return bound
        loads = np.array([self._relaxed.load(claim) for claim in claims], dtype=np.int64)
        known = right_sized(self._problem, Packing(np.zeros(len(loads), dtype=np.int64), loads))
        return dual_bound(
            self._problem,
            known,
            lower_bound=bound,
            generator=np.random.default_rng(self._seed),
            budget=budget,
            settings=self._settings,
        )

    def _of_whole_machines(self, machines: int, cost: int) -> int:
        """Return the bound from whole machines; zero if that is not worth its time."""
        settings = self._settings.whole_machine_bound
        if machines > settings.machines_max or cost <= self.fluid * (1 + settings.gap_relative_min):
            return 0
        return whole_machine_bound(self._problem, cost=cost, settings=settings)
