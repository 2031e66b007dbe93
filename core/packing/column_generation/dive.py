"""Dives: fixes the columns that the master problem buys most of as whole machines, and solves again for the remaining pods."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.generation import ColumnGeneration
from core.packing.column_generation.master_problem import MasterSolution
from core.packing.heuristics.value_packing import pack_by_value
from core.packing.problem import (
    Floats,
    Ints,
    Packing,
    PackingProblem,
    distributed,
    joined,
    largest_first,
    right_sized,
)
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings


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
        self._generate(lower_bound, with_beam=False)
        best = self._best_dive(lower_bound)
        is_done = best.cost(self._problem) <= self._cost_done(lower_bound) or self._budget.is_spent
        is_small = len(self._problem.counts) <= self._settings.diving.beam_items_max
        if is_done or not is_small or not self._generate(lower_bound, with_beam=True):
            return best
        again = self._best_dive(lower_bound)
        return again if again.cost(self._problem) < best.cost(self._problem) else best

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

        Where machines are kept, each dive after the first packs only the pods of the others again (docs/adr/0275).
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
            found = self._dive(share, prices_always=True, kept=kept)
            is_better = found.cost(self._problem) < best.cost(self._problem)
            best, idle, dives = found if is_better else best, 0 if is_better else idle + 1, dives + 1
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
            part = self._whole(solution, demand, bought_share_min)
            if not len(part.types):
                part = self._packed_by_value(demand, solution.item_values)
            demand = demand - part.loads.sum(axis=0)
            parts.append(part)
        found = right_sized(self._problem, joined(parts, items=len(demand)))
        self._master.add(Columns.of_packing(found))
        return found

    def _packed_by_value(self, demand: Ints, item_values: Floats) -> Packing:
        found = pack_by_value(
            self._filled,
            demand=demand,
            item_values=item_values,
            generator=self._generator,
            settings=self._settings.value_packing,
        )
        return right_sized(self._problem, found)

    def _solved_and_priced(self, demand: Ints) -> MasterSolution:
        """Return the master's solution for the remaining pods, with columns generated for them."""
        solution = self._master.solved(demand)
        for _ in range(self._settings.diving.pricing_rounds):
            values = solution.item_values
            prices = self._generation.shadow_prices.under(values, demand)
            found = self._generation.greedy_columns(demand, chosen_by=values, judged_by=values, resource_prices=prices)
            if not self._master.add(found):
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
        loads = self._generation.substitutions.assigned(
            bought.loads, flows=solution.flows, demand=demand, integrality_tolerance=tolerance
        )
        _top_up(self._problem, bought.types, loads, left=demand - loads.sum(axis=0))
        used = loads.any(axis=1)
        return Packing(bought.types[used], loads[used])


def _top_up(problem: PackingProblem, types: Ints, loads: Ints, *, left: Ints) -> None:
    """Put remaining pods ([item]) into the free capacity, large ones first; `loads` are changed in place."""
    # free[m, r] = capacity[m, r] - Σ_i loads[m, i] requests[i, r]. A machine takes min_r ⌊free[m, r] / requests[i, r]⌋ more
    # pods of item i, and no more than fit[i, type] in all.
    # Room only shrinks, so an item that fits no machine at first is left out.
    free = problem.capacity[types] - loads @ problem.requests
    order = largest_first(problem.requests, problem.capacity.max(axis=0))
    order = order[left[order] > 0]
    fits = problem.fit[order][:, types] > 0
    for requested, there in zip(problem.requests[order].T, free.T, strict=True):
        fits &= requested[:, None] <= there[None, :]
    for item in order[fits.any(axis=1)]:
        requests = problem.requests[item]
        requested = np.flatnonzero(requests)
        room = problem.fit[item, types] - loads[:, item]
        if requested.size:
            room = np.minimum(room, (free[:, requested] // requests[requested]).min(axis=1))
        amounts = distributed(left[item], np.maximum(room, 0))
        loads[:, item] += amounts
        free -= amounts[:, None] * requests
