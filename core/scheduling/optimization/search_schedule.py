"""Divides a search's budget between the subproblems of a plan, and continues with those that are far from their bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from core.packing.optimize import OptimizedPacking, improve, round_only
from core.packing.relaxation.preparation import prepared_with_flexibility
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.optimization.subproblems.subproblem import Subproblem
from core.scheduling.optimization.subproblems.zone_loads import ZoneLoads, loads_from


class SubproblemSearch:
    """The best packing of one subproblem so far.

    A large zone begins with the loads that were found for others; its columns are searched once (ADR 218).
    """

    def __init__(self, subproblem: Subproblem, budget: SearchBudget, settings: SearchSettings) -> None:
        self._subproblem = subproblem
        self._settings = settings
        problem = subproblem.problem()
        # Machines with a price of zero have no ratio of value to price: such subproblems are not searched.
        is_priced = bool(problem.prices.all())
        self._ready = prepared_with_flexibility(problem, settings, budget) if is_priced else None
        self._best: OptimizedPacking | None = None
        machines = self._ready.fluid.machines.sum() if self._ready and subproblem.zone else 0
        self._takes_loads = bool(machines >= settings.repack.common_loads_machines_min)

    @property
    def gap(self) -> int:
        """Return the possible further saving in nano-dollars per hour; zero if it is too small to continue."""
        if self._ready is None:
            return 0
        if self._best is None:
            return int(self._ready.fluid.lower_bound) + 1
        if self._takes_loads and len(self._best.loads):
            return 0
        bound = self._best.lower_bound
        gap = self._best.packing.cost(self._ready.problem) - bound
        return gap if gap > bound * self._settings.repack.stop_gap_relative else 0

    @property
    def steps_share(self) -> float:
        """The share of its steps that one search takes."""
        return self._settings.repack.common_loads_steps_share if self._takes_loads else 1.0

    @property
    def loads(self) -> ZoneLoads | None:
        """The loads that column generation found, for other subproblems."""
        if self._best is None or not len(self._best.loads):
            return None
        return ZoneLoads(list(self._subproblem.counts), self._best.loads)

    def advance(self, seed: int, budget: SearchBudget, *, is_quick: bool, elsewhere: Sequence[ZoneLoads] = ()) -> bool:
        """Search once, and return whether it found anything cheaper. Loads of other subproblems become columns too."""
        if self._ready is None:
            return False
        problem, before = self._ready.problem, self._best
        start = before.packing if before else self._subproblem.incumbent(problem)
        if is_quick:
            self._best = round_only(
                self._ready, start, seed=seed, budget=budget, settings=self._settings, pairs=not self._takes_loads
            )
        else:
            groups, counts = list(self._subproblem.counts), self._ready.reduced.counts
            loads = [loads_from(one, groups, counts) for one in elsewhere] if self._takes_loads else []
            self._best = improve(
                self._ready,
                start,
                seed=seed,
                budget=budget,
                settings=self._settings,
                known=before.known if before else (),
                loads=np.unique(np.concatenate(loads), axis=0) if loads else None,
            )
        return before is None or self._best.packing.cost(problem) < before.packing.cost(problem)

    def claims(self) -> list[InFlightClaim]:
        """Return claims for the packing found, none if there is none."""
        if self._ready is None or self._best is None:
            return []
        return self._subproblem.claims_of(self._ready.problem, self._best.packing)


def search(
    subproblems: Iterable[Subproblem], *, seed: int, budget: SearchBudget, settings: SearchSettings
) -> list[SubproblemSearch]:
    """Search every subproblem, repeatedly while that saves money and the budget lasts.

    With several subproblems, the quick stages of all run before the slow ones. The rest of the budget is divided in proportion
    to the gaps.
    """
    searches = [SubproblemSearch(subproblem, budget, settings) for subproblem in subproblems]
    for number in range(settings.repack.rounds_max):
        is_quick = number == 0 and len(searches) > 1
        widest_first = sorted((one for one in searches if one.gap), key=lambda one: -one.gap)
        gaps = [one.gap for one in widest_first]
        saved = False
        for position, one in enumerate(widest_first):
            portion = budget.portion(gaps[position] / sum(gaps[position:]))
            taken = portion if is_quick else portion.portion(one.steps_share)
            elsewhere = [other.loads for other in searches if other is not one and other.loads is not None]
            saved |= one.advance(seed + number, taken, is_quick=is_quick, elsewhere=elsewhere)
            # Steps that a large zone leaves are not taken by others.
            budget.steps += taken.steps if taken.steps_max == portion.steps_max else portion.steps_max or 0
        if not saved or budget.is_spent:
            break
    return searches
