"""Generates columns: solves the master problem and the pricing problem in turn until no column would lower the cost.

It is worth its time where machines hold few pods: the fluid relaxation counts fractions of pods that no real machine can hold.
"""

from __future__ import annotations

import math

import numpy as np

from core.packing.column_generation.beam_pricing import BeamPricing
from core.packing.column_generation.columns import Columns
from core.packing.column_generation.greedy_pricing import best_columns, knapsack_loads
from core.packing.column_generation.load_exchange import exchanged_loads
from core.packing.column_generation.master_problem import MasterProblem, MasterSolution
from core.packing.column_generation.shadow_prices import ShadowPrices, value_for_price_max
from core.packing.column_generation.substitution_columns import Substitutions
from core.packing.problem import Floats, Ints, PackingProblem
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import SearchSettings


class ColumnGeneration:
    """The master problem of one packing problem, and the search for its columns."""

    def __init__(
        self,
        problem: PackingProblem,
        generator: np.random.Generator,
        settings: SearchSettings,
        filled: PackingProblem | None = None,
    ) -> None:
        """Begin with a column for each item alone.

        Args:
            problem: The pods and all types of machine.
            generator: Draws the noise of pricing.
            settings: When to stop.
            filled: The problem with the types that pricing fills; all of them if None. Columns may have any type.
        """
        self._problem = problem
        self._filled = problem if filled is None else filled
        self._generator = generator
        self._settings = settings
        self._greedy_finds_none = False
        self.shadow_prices = ShadowPrices(self._filled)
        self.substitutions = Substitutions.of(problem)
        self.master = MasterProblem(problem, self.substitutions, settings.master_problem)
        self.master.add(Columns.of_single_items(problem))

    def run(self, lower_bound: int, budget: SearchBudget, *, with_beam: bool = True) -> bool:
        """Find columns until the master's cost is near the bound, no new column is found, or the budget is spent.

        Args:
            lower_bound: A lower bound on the cost of every packing.
            budget: Each round is a step.
            with_beam: Whether beam search continues where greedy knapsacks find nothing new; it takes ten times as long.

        Returns:
            Whether any column is new.
        """
        found_any = False
        settings, demand = self._settings.column_generation, self._problem.counts
        proven, center, idle = 0.0, None, 0
        costs = [math.inf] * settings.stalled_rounds
        while idle < settings.idle_rounds_max and budget.step():
            solution = self.master.solved(demand)
            costs.append(solution.cost)
            stalled_cost = costs[-1 - settings.stalled_rounds] * (1 - settings.saving_relative_min)
            if solution.cost <= lower_bound * (1 + settings.stop_gap_relative) or solution.cost > stalled_cost:
                break
            # Wentges smoothing: price at s · center + (1 - s) · latest, where the center proved the best bound so far. Any item
            # values over the largest value / price of a load are dual feasible, so values · demand over it is a bound.
            tried = solution.item_values
            if center is not None and not idle:
                tried = settings.smoothing * center + (1 - settings.smoothing) * tried
            prices = self.shadow_prices.under(tried)
            excess = value_for_price_max(self._filled, demand=demand, item_values=tried, resource_prices=prices)
            if center is None or tried @ demand / excess > proven:
                proven, center = float(tried @ demand / excess), tried / excess
            found = self._price(solution, tried=tried, resource_prices=prices, with_beam=with_beam)
            found_any |= found
            idle = 0 if found else idle + 1
        return found_any

    def item_values(self, known: Columns, lower_bound: int, budget: SearchBudget) -> Floats:
        """Return [item], dual prices of the master problem with these columns and those that pricing adds."""
        self.master.add(known)
        self.run(lower_bound, budget)
        return self.master.solved(self._problem.counts).item_values

    def greedy_columns(self, demand: Ints, *, chosen_by: Floats, judged_by: Floats, resource_prices: Floats) -> Columns:
        """Columns for `demand` ([item]) by greedy knapsacks, the best of them improved by exchanges."""
        settings = self._settings
        loads = knapsack_loads(
            self._filled,
            demand,
            chosen_by=chosen_by,
            resource_prices=resource_prices,
            generator=self._generator,
            settings=settings.greedy_pricing,
        )
        if settings.load_exchange.loads:
            improved = exchanged_loads(
                self._filled, demand, loads, item_values=chosen_by, settings=settings.load_exchange
            )
            loads = np.concatenate([loads, improved])
        return best_columns(
            self._problem,
            loads,
            judged_by=judged_by,
            value_per_price_min=settings.column_generation.value_per_price_min,
            columns_max=settings.greedy_pricing.columns_max,
        )

    def _price(self, solution: MasterSolution, *, tried: Floats, resource_prices: Floats, with_beam: bool) -> bool:
        """Add columns by greedy knapsacks until these find none, then by beam search; returns whether any is new."""
        demand = self._problem.counts
        if not self._greedy_finds_none:
            found = self.greedy_columns(
                demand, chosen_by=tried, judged_by=solution.item_values, resource_prices=resource_prices
            )
            is_new = self.master.add(found) > 0
            if is_new or not with_beam:
                return is_new
        self._greedy_finds_none = True
        beam = BeamPricing(
            self._filled,
            demand,
            item_values=tried,
            resource_prices=resource_prices,
            value_per_price_min=self._settings.column_generation.value_per_price_min,
            settings=self._settings.beam_pricing,
        )
        return self.master.add(Columns.of_loads(self._problem, beam.columns().loads)) > 0
