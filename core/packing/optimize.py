"""Improves a packing until it is proven good enough, or the steps or the caller's time are used up."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.dive import Diving
from core.packing.heuristics.guided_rounding import cuts, guided_rounding
from core.packing.heuristics.ruin_and_recreate import RuinAndRecreate, promising_types
from core.packing.heuristics.separate_machines import separate_cost, separate_packing
from core.packing.heuristics.two_type_rounding import two_type_packings
from core.packing.problem import Ints, Packing, PackingProblem, distinct_loads, right_sized
from core.packing.relaxation.fluid_lp import FluidSolution
from core.packing.relaxation.preparation import PreparedProblem
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings, StageSettings


class OptimizedPacking(msgspec.Struct, frozen=True, eq=False):
    """The best packing found, and a proven lower bound on the cost of any packing.

    Attributes:
        packing: The packing.
        lower_bound: Nano-dollars per hour.
        known: Packings of the reduced problem whose loads column generation begins with; none where it is not worth its time.
        loads: [load, item], the loads that column generation found; none where it did not run.
    """

    packing: Packing
    lower_bound: int
    known: Sequence[Packing]
    loads: Ints


def improve(
    ready: PreparedProblem,
    incumbent: Packing,
    *,
    seed: int,
    budget: SearchBudget,
    settings: SearchSettings,
    known: Sequence[Packing] = (),
    loads: Ints | None = None,
) -> OptimizedPacking:
    """Return a packing that costs no more than `incumbent`: rounding, column generation, then ruin and recreate.

    Args:
        ready: The problem.
        incumbent: A packing of it.
        seed: The seed of random draws.
        budget: The steps and the time that may be spent.
        settings: When to stop.
        known: Packings from an earlier search of the problem; with them the fluid solution is not rounded again.
        loads: [load, item], the loads of a similar problem; column generation begins with them instead of rounding over two
            types.
    """
    return _Stages(ready, seed, budget, settings).run(incumbent, known, _no_loads(ready) if loads is None else loads)


def round_only(
    ready: PreparedProblem,
    incumbent: Packing,
    *,
    seed: int,
    budget: SearchBudget,
    settings: SearchSettings,
    pairs: bool = True,
) -> OptimizedPacking:
    """Return the best rounded packing, within a fraction of a second; without `pairs`, two-type rounding is left out."""
    return _Stages(ready, seed, budget, settings).rounded(incumbent, pairs=pairs)


def is_coarse(problem: PackingProblem, *, lower_bound: int, cost: int, machines: int, settings: StageSettings) -> bool:
    """Whether column generation is worth its time: the gap is wide, and machines hold so few pods that fractions hide it."""
    pods_max = settings.coarse_pods_per_machine_max * machines
    is_small = problem.counts.sum() <= pods_max and len(problem.counts) <= settings.coarse_items_max
    return bool(is_small and cost > lower_bound * (1 + settings.coarse_gap_relative))


def _no_loads(ready: PreparedProblem) -> Ints:
    return np.zeros((0, len(ready.reduced.counts)), dtype=np.int64)


class _Stages:
    """The stages of one search, over the types that are worth buying."""

    def __init__(self, ready: PreparedProblem, seed: int, budget: SearchBudget, settings: SearchSettings) -> None:
        self._ready = ready
        self._problem: PackingProblem = ready.reduced
        self._fluid: FluidSolution = ready.fluid
        self._generator = np.random.default_rng(seed)
        self._budget = budget
        self._settings = settings

    def rounded(self, incumbent: Packing, *, pairs: bool) -> OptimizedPacking:
        """The best packing that rounding finds."""
        best = self._rounded(self._start(incumbent))
        known = [*(self._two_type_packings() if pairs else ()), best] if self._is_coarse(best) else []
        return self._checked(self._cheapest([*known, best]), known, _no_loads(self._ready))

    def run(self, incumbent: Packing, known: Sequence[Packing], loads: Ints) -> OptimizedPacking:
        """The best packing that any stage finds, rechecked in integers."""
        start = self._start(incumbent)
        # Where loads are known, rounding is left to the time after the search.
        best = start if known or (len(loads) and not self._budget.time_is_over) else self._rounded(start)
        sources = list(known)
        if len(known) <= 1 and self._is_coarse(best):
            sources = [best] if len(loads) else [*self._two_type_packings(), best]
        best = self._cheapest([*sources, best])
        is_closed, found = False, _no_loads(self._ready)
        if self._is_coarse(best) and not self._budget.is_spent:
            dived, is_closed, found = self._dived([*sources, best], loads)
            best = self._cheapest([best, dived])
        if not is_closed:
            best = RuinAndRecreate(
                self._problem,
                self._fluid,
                generator=self._generator,
                budget=self._budget,
                settings=self._settings,
            ).improved(best)
        return self._checked(best, sources, found)

    def _start(self, incumbent: Packing) -> Packing:
        """The incumbent, or a machine for each pod where that is cheaper."""
        start = right_sized(self._problem, incumbent)
        return separate_packing(self._problem) if separate_cost(self._problem) < start.cost(self._problem) else start

    def _checked(self, best: Packing, known: Sequence[Packing], loads: Ints) -> OptimizedPacking:
        """The packing in the numbers of the whole problem, rechecked in integers."""
        found = Packing(self._ready.kept[best.types], best.loads)
        found.check(self._ready.problem)
        return OptimizedPacking(found, self._fluid.lower_bound, known, loads)

    def _rounded(self, best: Packing) -> Packing:
        """The best of a few ways to round the fluid solution, or the packing given."""
        stages = self._settings.stages
        cost_done = self._fluid.lower_bound * (1 + stages.stop_gap_relative)
        for number, cut in enumerate(cuts(self._fluid, self._settings.rounding)):
            is_sure = number < stages.roundings_sure
            if best.cost(self._problem) <= cost_done or not self._budget.step(ignore_time=is_sure):
                break
            found = guided_rounding(self._problem, self._fluid, cut, generator=self._generator, settings=self._settings)
            if found.cost(self._problem) < best.cost(self._problem):
                best = found
            if self._is_coarse(best):
                break
        return best

    def _two_type_packings(self) -> list[Packing]:
        return two_type_packings(
            self._problem,
            self._fluid,
            generator=self._generator,
            budget=self._budget,
            settings=self._settings,
        )

    def _dived(self, known: list[Packing], loads: Ints) -> tuple[Packing, bool, Ints]:
        """The packing of column generation and diving, whether it is closed, and the loads of all columns.

        It is closed if it costs hardly more than the master problem's optimum, where machines may be split: only new loads
        could make it cheaper.
        """
        problem, settings = self._problem, self._settings
        pairs_allow = settings.stages.column_pairs_max // len(problem.counts)
        types = promising_types(problem, self._fluid, max(settings.ruin_and_recreate.promising_types, pairs_allow))
        diving = Diving(problem, self._generator, self._budget, settings, problem.restricted(types))
        start = [Columns.of_packing(packing) for packing in known]
        found = diving.packing([*start, Columns.of_loads(problem, loads)], self._fluid.lower_bound)
        is_closed = diving.is_closed(found)
        good = diving.loads(settings.large_zones.value_for_price_min)
        return found, is_closed, distinct_loads(np.concatenate([good, found.loads]))

    def _is_coarse(self, packing: Packing) -> bool:
        return is_coarse(
            self._problem,
            lower_bound=self._fluid.lower_bound,
            cost=packing.cost(self._problem),
            machines=len(packing.types),
            settings=self._settings.stages,
        )

    def _cheapest(self, packings: list[Packing]) -> Packing:
        """The cheapest, the first of equals."""
        costs = [packing.cost(self._problem) for packing in packings]
        return packings[costs.index(min(costs))]
