"""Improves a packing until it is proven good enough, or the steps or the caller's time are used up."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from core.packing.column_generation import ColumnGeneration
from core.packing.columns import Columns, MasterSolution
from core.packing.heuristics import (
    Cut,
    cuts,
    few_machines,
    guided_rounding,
    pack_by_value,
    promising_types,
    separate_cost,
    separate_packing,
    two_type_packings,
)
from core.packing.problem import (
    NO_TYPE,
    Floats,
    IntegerLimits,
    Ints,
    Packing,
    PackingProblem,
    distinct_loads,
    distributed,
    joined,
    largest_first,
    right_sized,
)
from core.packing.relaxation import FluidSolution, PreparedProblem
from core.packing.settings import SearchBudget, SearchSettings, StageSettings, TooLateError

# Dives: fixes the columns that the master problem buys most of as whole machines, and solves again for the remaining pods.


class Diving:
    """The search for a packing of one problem through its columns."""

    def __init__(
        self,
        problem: PackingProblem,
        generator: np.random.Generator,
        budget: SearchBudget,
        settings: SearchSettings,
        filled: PackingProblem | None = None,
    ) -> None:
        """`filled` is the problem with the types that pricing fills, all of them if None; columns may have any type."""
        self._problem = problem
        self._filled = problem if filled is None else filled
        self._generator = generator
        self._budget = budget
        self._settings = settings
        self._generation = ColumnGeneration(problem, generator, settings, filled)
        self._master = self._generation.master
        self._fractional_cost = self._cost_near = 0.0
        self._item_values: Floats = np.zeros(len(problem.counts))

    def loads(self, value_for_price_min: float) -> Ints:
        """Return [load, item], the loads with at least this value for their price at the last dual prices for all pods."""
        return self._master.loads(self._item_values, value_for_price_min)

    def packing(self, known: Sequence[Columns], lower_bound: int) -> Packing:
        """Return a packing of all pods from known and new columns; dives repeat while they save.

        Args:
            known: The first columns.
            lower_bound: A lower bound on the cost of every packing.
        """
        for columns in known:
            self._master.add(columns)
        self._cost_near = lower_bound * (1 + self._settings.column_generation.stop_gap_relative)
        every = Columns.all_of(self._problem, self._settings.diving.combinations_max)
        if every is not None:
            self._master.add(every)
        self._generate(lower_bound, with_beam=False)
        best = self._best_dive(lower_bound)
        if every is not None:
            return self._whole_columns(best)
        is_done = best.cost(self._problem) <= self._cost_done(lower_bound) or self._budget.is_spent
        has_few_items = len(self._problem.counts) <= self._settings.diving.beam_items_max
        if not is_done and has_few_items and self._generate(lower_bound, with_beam=True):
            again = self._best_dive(lower_bound)
            best = again if again.cost(self._problem) < best.cost(self._problem) else best
        is_small = self._problem.counts.sum() <= self._settings.diving.whole_pods_max
        return self._whole_columns(best) if is_small else best

    def _whole_columns(self, best: Packing) -> Packing:
        """Return the best mix of whole columns, or the packing given if that costs no more."""
        limits, counts = self._settings.diving, self._problem.counts
        whole = IntegerLimits(gap_relative=limits.whole_gap_relative, nodes_max=limits.whole_nodes_max, is_small=True)
        solution = self._master.whole(counts, whole) if self._budget.step() else None
        if solution is None or solution.cost >= best.cost(self._problem):
            return best
        packing = self._whole(solution, counts, 0.0)
        return right_sized(self._problem, packing) if (packing.loads.sum(axis=0) == counts).all() else best

    def is_closed(self, packing: Packing) -> bool:
        """Whether a packing costs hardly more than the optimum of the master problem over the known loads."""
        return packing.cost(self._problem) <= max(self._cost_done(self._fractional_cost), self._cost_near)

    def _generate(self, lower_bound: int, *, with_beam: bool) -> bool:
        """Generate columns for a share of the remaining steps, and return whether there are any new ones."""
        generating = self._budget.portion(self._settings.column_generation.budget_share)
        is_new = self._generation.run(lower_bound, generating, with_beam=with_beam)
        self._budget.steps += generating.steps
        return is_new

    def _best_dive(self, lower_bound: int) -> Packing:
        """Return the best of several dives; they end once none saves or the best costs hardly more than the master problem.

        Where machines are kept, each dive after the first packs only the pods of the others again
        (docs/engineering/handbook/target-packing.md).
        """
        settings = self._settings.diving
        shares, idle, dives = settings.bought_shares_min, 0, 1
        best = self._dive(shares[0], prices_always=False)
        if self._settings.kept_machines.share:
            # The dive has added columns, and the master problem may cost less with them.
            solution = self._master.solved(self._problem.counts)
            self._fractional_cost, self._item_values = solution.cost, solution.item_values
        cost_done = max(self._cost_done(max(lower_bound, self._fractional_cost)), self._cost_near)
        while idle < settings.idle_dives_max and best.cost(self._problem) > cost_done and self._budget.step():
            kept = self._kept(best)
            share = shares[dives % len(shares)] if kept is None else self._settings.kept_machines.bought_share_min
            packing = self._dive(share, prices_always=True, kept=kept)
            is_better = packing.cost(self._problem) < best.cost(self._problem)
            best, idle, dives = packing if is_better else best, 0 if is_better else idle + 1, dives + 1
        return best

    def _cost_done(self, lower_bound: float) -> float:
        return lower_bound * (1 + self._settings.diving.stop_gap_relative)

    def _kept(self, packing: Packing) -> Packing | None:
        """Return the machines of a packing that are worth most for their price, give or take some noise; None if none stays."""
        settings = self._settings.kept_machines
        if not settings.share:
            return None
        value_for_price = (packing.loads @ self._item_values) / self._problem.prices[packing.types]
        noise = self._generator.normal(0, settings.noise, len(value_for_price))
        ranked = np.argsort(-(value_for_price + noise), kind="stable")
        kept = np.sort(ranked[: int(len(ranked) * settings.share)])
        return Packing(packing.types[kept], packing.loads[kept]) if len(kept) else None

    def _dive(self, bought_share_min: float, *, prices_always: bool, kept: Packing | None = None) -> Packing:
        """Dive once. The loads become columns: those for the last pods improve the next solution and the next dive.

        Columns are generated for the remaining pods, unless `prices_always` is off and the program costs little enough.
        `kept`: machines of the packing that are bought first.
        """
        parts = [] if kept is None else [kept]
        demand = self._problem.counts - sum(part.loads.sum(axis=0) for part in parts)
        while demand.any():
            # Without steps left no columns are generated: what the program buys is better than packing by value and takes
            # less time.
            may_price = self._budget.step(ignore_time=not parts)
            if not may_price and self._budget.time_is_over:
                item_values = self._master.solved(self._problem.counts).item_values
                parts.append(self._packed_by_value(demand, item_values))
                break
            is_priced = parts and may_price and (prices_always or self._fractional_cost > self._cost_near)
            solution = self._solved_and_priced(demand) if is_priced else self._master.solved(demand)
            if not parts:
                self._fractional_cost, self._item_values = solution.cost, solution.item_values
            part = self._on_one_machine(solution, demand) or self._whole(solution, demand, bought_share_min)
            if not len(part.types):
                part = self._packed_by_value(demand, solution.item_values)
            demand = demand - part.loads.sum(axis=0)
            parts.append(part)
        packing = right_sized(self._problem, joined(parts, items=len(demand)))
        self._master.add(Columns.of_packing(packing))
        return packing

    def _packed_by_value(self, demand: Ints, item_values: Floats) -> Packing:
        packing = pack_by_value(
            self._filled,
            demand=demand,
            item_values=item_values,
            generator=self._generator,
            settings=self._settings.value_packing,
        )
        return right_sized(self._problem, packing)

    def _solved_and_priced(self, demand: Ints) -> MasterSolution:
        """Return the master's solution for the remaining pods, with columns generated for them."""
        solution = self._master.solved(demand)
        for _ in range(self._settings.diving.pricing_rounds):
            values = solution.item_values
            prices = self._generation.shadow_prices.under(values, demand)
            columns = self._generation.greedy_columns(
                demand, chosen_by=values, judged_by=values, resource_prices=prices
            )
            if not self._master.add(columns):
                break
            solution = self._master.solved(demand)
        return solution

    def _whole(self, solution: MasterSolution, demand: Ints, bought_share_min: float) -> Packing:
        """Return what the solution buys whole, and the largest parts of machines where that is too small a share of them."""
        # times = ⌊machines⌋, and one more of the columns with the largest machines - times while Σ times is below the share.
        tolerance = self._settings.diving.integrality_tolerance
        times = np.floor(solution.machines + tolerance).astype(np.int64)
        lacking = max(1, int(bought_share_min * solution.machines.sum())) - int(times.sum())
        if lacking > 0:
            times[np.argsort(times - solution.machines, kind="stable")[:lacking]] += 1
        bought = self._master.bought(times)
        buys_parts = self._settings.diving.part_pods_min > 0
        if buys_parts:
            self._take_parts(bought.loads, times, solution.machines)
        loads = self._generation.substitutions.assigned(
            bought.loads, flows=solution.flows, demand=demand, integrality_tolerance=tolerance
        )
        if buys_parts:
            bought = right_sized(self._problem, _without_empty(bought.types, loads))
            loads = bought.loads
        _top_up(self._problem, bought.types, loads, pods_left=demand - loads.sum(axis=0))
        return _without_empty(bought.types, loads)

    def _on_one_machine(self, solution: MasterSolution, demand: Ints) -> Packing | None:
        """Return one machine for all remaining pods where dives buy parts, if it costs hardly more than the solution."""
        limits = self._settings.diving
        if not limits.part_pods_min:
            return None
        type_index = self._problem.cheapest_type(demand)
        if type_index == NO_TYPE or (demand > self._problem.fit[:, type_index]).any():
            return None
        is_cheap = self._problem.prices[type_index] <= solution.cost * (1 + limits.last_machine_relative_max)
        return Packing(np.array([type_index]), demand[None, :].copy()) if is_cheap else None

    def _take_parts(self, loads: Ints, times: Ints, machines: Floats) -> None:
        """Reduce the last load of each column that is rounded up to the part that the solution has of it, if that is large.

        A whole load would take pods of other columns, and leave none of its mix for these. Loads ([machine, item]) come column
        by column, as often as `times` ([column]) says, and are changed in place.
        """
        limits = self._settings.diving
        rounded_up = np.flatnonzero(times > machines + limits.integrality_tolerance)
        part = machines[rounded_up] - (times[rounded_up] - 1)
        last = np.cumsum(times)[rounded_up] - 1
        is_large = part * loads[last].sum(axis=1) >= limits.part_pods_min
        last, part = last[is_large], part[is_large]
        loads[last] = np.floor(loads[last] * part[:, None] + 0.5).astype(np.int64)


def _without_empty(types: Ints, loads: Ints) -> Packing:
    used = loads.any(axis=1)
    return Packing(types[used], loads[used])


def _top_up(problem: PackingProblem, types: Ints, loads: Ints, *, pods_left: Ints) -> None:
    """Put remaining pods ([item]) into the free capacity, large ones first; `loads` are changed in place."""
    # free[m, r] = capacity[m, r] - Σ_i loads[m, i] requests[i, r]. A machine takes min_r ⌊free[m, r] / requests[i, r]⌋ more
    # pods of item i, and no more than fit[i, type] in all.
    # Room only shrinks, so an item that fits no machine at first is left out.
    free = problem.capacity[types] - loads @ problem.requests
    order = largest_first(problem.requests, problem.capacity.max(axis=0))
    order = order[pods_left[order] > 0]
    fits = problem.fit[order][:, types] > 0
    for requested, there in zip(problem.requests[order].T, free.T, strict=True):
        fits &= requested[:, None] <= there[None, :]
    for item in order[fits.any(axis=1)]:
        requests = problem.requests[item]
        requested = np.flatnonzero(requests)
        room = problem.fit[item, types] - loads[:, item]
        if requested.size:
            room = np.minimum(room, (free[:, requested] // requests[requested]).min(axis=1))
        amounts = distributed(pods_left[item], np.maximum(room, 0))
        loads[:, item] += amounts
        free -= amounts[:, None] * requests


class OptimizedPacking(msgspec.Struct, frozen=True, eq=False):
    """The best packing found, and a proven lower bound on the cost of any packing.

    Attributes:
        packing: The packing.
        lower_bound: Nano-dollars per hour.
        known: Packings of the reduced problem whose loads column generation begins with; none where it is not worth its time.
        loads: [load, item], the loads that column generation found; none where it did not run.
        is_settled: Whether another seed would find the same: chance has no part in the best mix of few machines.
    """

    packing: Packing
    lower_bound: int
    known: Sequence[Packing]
    loads: Ints
    is_settled: bool = False


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
    """Return a packing that costs no more than `incumbent`: rounding, column generation, or the best mix of few machines.

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
        is_long = len(self._problem.counts) > settings.stages.sure_items_max
        self._rounding_budget = budget if is_long else None

    def rounded(self, incumbent: Packing, *, pairs: bool) -> OptimizedPacking:
        """The best packing that rounding finds."""
        best = self._rounded(self._start(incumbent))
        known = [*(self._two_type_packings() if pairs else ()), best] if self._is_coarse(best) else []
        return self._checked(self._cheapest([*known, best]), known, _no_loads(self._ready))

    def run(self, incumbent: Packing, known: Sequence[Packing], loads: Ints) -> OptimizedPacking:
        """The best packing that any stage finds, rechecked in integers."""
        start = self._start(incumbent)
        # Where loads are known, rounding is left to the time after the search.
        best = start if known or (len(loads) and not self._budget.time_is_over) else self._rounded_first(start)
        sources = list(known)
        if len(known) <= 1 and self._is_coarse(best):
            sources = [best] if len(loads) else [*self._two_type_packings(), best]
        best = self._cheapest([*sources, best])
        is_settled, fresh = False, _no_loads(self._ready)
        if self._is_coarse(best) and not self._budget.is_spent:
            dived, is_settled, fresh = self._dived([*sources, best], loads)
            best = self._cheapest([best, dived])
        if not is_settled and self._has_few_machines and not self._budget.is_spent:
            best, is_settled = self._of_few_machines(best), True
        return msgspec.structs.replace(self._checked(best, sources, fresh), is_settled=is_settled)

    def _start(self, incumbent: Packing) -> Packing:
        """The incumbent, or a machine for each pod where that is cheaper."""
        start = right_sized(self._problem, incumbent)
        return separate_packing(self._problem) if separate_cost(self._problem) < start.cost(self._problem) else start

    def _checked(self, best: Packing, known: Sequence[Packing], loads: Ints) -> OptimizedPacking:
        """The packing in the numbers of the whole problem, rechecked in integers."""
        packing = Packing(self._ready.kept[best.types], best.loads)
        packing.check(self._ready.problem)
        return OptimizedPacking(packing, self._fluid.lower_bound, known, loads)

    def _rounded_first(self, start: Packing) -> Packing:
        """As `_rounded`, but only once where the best mix of few machines follows."""
        return self._rounded(start, cuts_max=1 if self._has_few_machines else self._settings.rounding.cuts_max)

    @property
    def _has_few_machines(self) -> bool:
        """Whether the relaxation has so few machines that the best mix of them is searched."""
        limits = self._settings.few_machines
        return bool(self._fluid.machines.sum() <= limits.machines_max and len(self._problem.counts) <= limits.items_max)

    def _of_few_machines(self, best: Packing) -> Packing:
        """The best mix of few machines, or the other roundings if pods do not fit into it."""
        if best.cost(self._problem) <= self._cost_done:
            return best
        limits = self._settings.few_machines
        cheaper = few_machines(self._problem, best, budget=self._budget, settings=limits)
        return self._rounded(best) if cheaper is best else cheaper

    @property
    def _cost_done(self) -> float:
        return self._fluid.lower_bound * (1 + self._settings.stages.stop_gap_relative)

    def _rounded(self, best: Packing, *, cuts_max: int | None = None) -> Packing:
        """The best of a few ways to round the fluid solution, or the packing given."""
        stages = self._settings.stages
        for number, cut in enumerate(cuts(self._fluid, self._settings.rounding)[:cuts_max]):
            if best.cost(self._problem) <= self._cost_done or self._is_late:
                break
            if not self._budget.step(ignore_time=number < stages.roundings_sure):
                break
            rounding = self._guided(cut)
            if rounding is None:
                break
            if rounding.cost(self._problem) < best.cost(self._problem):
                best = rounding
            if self._is_coarse(best):
                break
        return best

    def _guided(self, cut: Cut) -> Packing | None:
        """Round once; None if it was given up, since it is late: with thousands of items, one rounding takes seconds."""
        try:
            return guided_rounding(
                self._problem,
                self._fluid,
                cut,
                generator=self._generator,
                settings=self._settings,
                budget=self._rounding_budget,
            )
        except TooLateError:
            return None

    @property
    def _is_late(self) -> bool:
        """Whether it is late, and rounding takes long."""
        return self._rounding_budget is not None and self._rounding_budget.is_late

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
        types = promising_types(problem, self._fluid, max(settings.stages.column_types_min, pairs_allow))
        diving = Diving(problem, self._generator, self._budget, settings, problem.restricted(types))
        start = [Columns.of_packing(packing) for packing in known]
        dive = diving.packing([*start, Columns.of_loads(problem, loads)], self._fluid.lower_bound)
        is_closed = diving.is_closed(dive)
        good = diving.loads(settings.large_zones.value_for_price_min)
        return dive, is_closed, distinct_loads(np.concatenate([good, dive.loads]))

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
