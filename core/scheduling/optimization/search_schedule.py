"""Divides a search's budget between the subproblems of a plan, and continues with those that are far from their bound."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from core.packing.optimize import OptimizedPacking, improve, round_only
from core.packing.problem import distinct_loads
from core.packing.relaxation.preparation import PreparedProblem, prepared_like, prepared_with_flexibility
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.optimization.subproblems.subproblem import Subproblem
from core.scheduling.optimization.subproblems.zone_loads import ZoneLoads, loads_from


class SubproblemSearch:
    """The best packing of one subproblem so far.

    A large zone begins with the loads that were found for others; its columns are searched once (ADR 218). If it has the same
    machine types as the largest zone, it also takes over the prices of that zone's resources, and is not rounded (ADR 261).

    Attributes:
        ready: The problem with its relaxation; None if it is not searched.
        is_large_zone: Whether it is such a zone.
    """

    def __init__(
        self,
        subproblem: Subproblem,
        budget: SearchBudget,
        settings: SearchSettings,
        model: SubproblemSearch | None = None,
    ) -> None:
        """Prepare the search; `model` is that of a large zone whose prices it may take over."""
        problem = subproblem.problem()
        self._subproblem = subproblem
        self._best: OptimizedPacking | None = None
        # Machines with a price of zero have no ratio of value to price: such subproblems are not searched.
        is_priced = bool(problem.prices.all())
        self.ready: PreparedProblem | None = None
        if subproblem.zone and model is not None and model.ready is not None:
            self.ready = prepared_like(problem, model.ready, settings)
        self._model = model if self.ready is not None else None
        if is_priced and self.ready is None:
            self.ready = subproblem.prepared(settings, budget)
        self.is_large_zone = bool(
            self.ready is not None
            and subproblem.zone
            and self.ready.fluid.machines.sum() >= settings.large_zones.machines_min
        )
        self._settings = _for_large_zones(settings) if self.is_large_zone else settings

    @property
    def gap(self) -> int:
        """Return the possible further saving in nano-dollars per hour; zero if it is too small to continue."""
        if self.ready is None:
            return 0
        if self._best is None:
            bound = int(self.ready.fluid.lower_bound)
            return bound + 1 if self._model is None else int(bound * self._model.gap_relative) + 1
        if self.is_large_zone and len(self._best.loads):
            return 0
        bound = self._best.lower_bound
        gap = self._best.packing.cost(self.ready.problem) - bound
        return gap if gap > bound * self._settings.repack.stop_gap_relative else 0

    @property
    def gap_relative(self) -> float:
        """The gap as a share of the bound; one before the first search."""
        if self._best is None or self.ready is None:
            return 1.0
        return self._best.packing.cost(self.ready.problem) / max(self._best.lower_bound, 1) - 1

    @property
    def waits(self) -> bool:
        """Whether it waits for the loads of others."""
        return self._best is None and self.ready is not None and not self.ready.is_relaxed

    @property
    def loads(self) -> ZoneLoads | None:
        """The loads that column generation found, for other subproblems."""
        if self._best is None or not len(self._best.loads):
            return None
        return ZoneLoads(list(self._subproblem.counts), self._best.loads)

    def advance(self, seed: int, budget: SearchBudget, *, is_quick: bool, elsewhere: Sequence[ZoneLoads] = ()) -> bool:
        """Search once, and return whether it found anything cheaper. Loads of other subproblems become columns too."""
        if self.ready is None:
            return False
        if not self.ready.is_relaxed and (not elsewhere or budget.time_is_over):
            self.ready = prepared_with_flexibility(self.ready.problem, self._settings, budget)
        problem, before = self.ready.problem, self._best
        start = before.packing if before else self._subproblem.incumbent(problem)
        if is_quick:
            self._best = round_only(
                self.ready, start, seed=seed, budget=budget, settings=self._settings, pairs=not self.is_large_zone
            )
        else:
            groups, counts = list(self._subproblem.counts), self.ready.reduced.counts
            loads = [loads_from(one, groups, counts) for one in elsewhere] if self.is_large_zone else []
            self._best = improve(
                self.ready,
                start,
                seed=seed,
                budget=budget,
                settings=self._settings,
                known=before.known if before else (),
                loads=distinct_loads(np.concatenate(loads)) if loads else None,
            )
        return before is None or self._best.packing.cost(problem) < before.packing.cost(problem)

    def claims(self) -> list[InFlightClaim]:
        """Return claims for the packing found, none if there is none."""
        if self.ready is None or self._best is None:
            return []
        return self._subproblem.claims_of(self.ready.problem, self._best.packing)


def search(
    subproblems: Iterable[Subproblem], *, seed: int, budget: SearchBudget, settings: SearchSettings
) -> list[SubproblemSearch]:
    """Search every subproblem, repeatedly while that saves money and the budget lasts.

    With several subproblems, the quick stages of all run before the slow ones, except of zones that wait for loads: these are
    rounded only if the budget ends before. The rest of the budget is divided in proportion to the gaps.
    """
    searches = _prepared(list(subproblems), budget, settings)
    for number in range(settings.repack.rounds_max):
        is_quick = number == 0 and len(searches) > 1
        among = [one for one in searches if one.gap and not (is_quick and one.waits)]
        widest_first = sorted(among, key=lambda one: (one.waits, -one.gap))
        gaps = [one.gap for one in widest_first]
        saved = any(one.waits for one in searches)
        for position, one in enumerate(widest_first):
            portion = budget.portion(gaps[position] / sum(gaps[position:]))
            elsewhere = [other.loads for other in searches if other is not one and other.loads is not None]
            saved |= one.advance(seed + number, portion, is_quick=is_quick, elsewhere=elsewhere)
            # Steps that a large zone leaves are not taken by others.
            is_used_up = one.is_large_zone and not is_quick
            budget.steps += (portion.steps_max or 0) if is_used_up else portion.steps
        if not saved or budget.is_spent:
            break
    for one in searches:
        if one.waits:
            one.advance(seed, SearchBudget(settings.stages.roundings_sure, budget.out_of_time), is_quick=True)
    return searches


def _prepared(
    subproblems: Sequence[Subproblem], budget: SearchBudget, settings: SearchSettings
) -> list[SubproblemSearch]:
    """Return the searches, in the order of the subproblems; the zone with the most pods is the model of the others."""
    largest_first = sorted(range(len(subproblems)), key=lambda number: -sum(subproblems[number].counts.values()))
    found: dict[int, SubproblemSearch] = {}
    for number in largest_first:
        model = next((one for one in found.values() if one.is_large_zone), None)
        found[number] = SubproblemSearch(subproblems[number], budget, settings, model)
    return [found[number] for number in range(len(subproblems))]


def _for_large_zones(settings: SearchSettings) -> SearchSettings:
    """Return the settings with which a large zone is searched."""
    limits = settings.large_zones
    generation = replace(settings.column_generation, stop_gap_relative=limits.stop_gap_relative)
    stages = replace(settings.stages, column_pairs_max=limits.column_pairs_max)
    two_type = replace(settings.two_type, pairs_rounded_max=limits.pairs_rounded_max)
    return replace(settings, column_generation=generation, stages=stages, two_type=two_type)
