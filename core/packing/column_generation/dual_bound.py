"""A lower bound from whole loads, for machines that hold so few pods that the fluid relaxation is weak.

Weak duality of the master problem: for any item values v ≥ 0, every packing costs at least Σ_i counts[i] v[i] / q, where q is
the largest value / price of any load. Column generation provides v. The value of a type's best load is bounded by a linear
program at first, and by the exact knapsack for the types that decide q.
"""

from __future__ import annotations

import numpy as np

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.generation import ColumnGeneration
from core.packing.column_generation.shadow_prices import load_value_bound
from core.packing.lp import IntegerLimits, LinearProgram, LpColumns, LpRows
from core.packing.problem import Floats, Ints, MachineTypeIndex, Packing, PackingProblem
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DualBoundSettings, SearchSettings


def dual_bound(
    problem: PackingProblem,
    known: Packing,
    *,
    lower_bound: int,
    generator: np.random.Generator,
    budget: SearchBudget,
    settings: SearchSettings,
) -> int:
    """Return a lower bound on the nano-dollars per hour of every packing; at least `lower_bound`, a known one.

    Args:
        problem: The pods and all types that might hold them.
        known: A good packing: its loads are the first columns.
        lower_bound: The bound of the fluid relaxation.
        generator: Draws the noise of pricing.
        budget: The rest of the search's budget.
        settings: When to stop.
    """
    generation = ColumnGeneration(problem, generator, settings)
    item_values = generation.item_values(Columns.of_packing(known), lower_bound, budget)
    near = 1 + settings.dual_bound.stop_gap_relative
    for _ in range(settings.dual_bound.rounds_max):
        resource_prices = generation.shadow_prices.under(item_values)
        excess, columns = _value_for_price_max(
            problem,
            item_values=item_values,
            resource_prices=resource_prices,
            budget=budget,
            settings=settings.dual_bound,
        )
        lower_bound = max(lower_bound, int(item_values @ problem.counts / excess))
        if excess <= near or not len(columns) or budget.is_spent:
            break
        item_values = generation.item_values(columns, lower_bound, budget)
    return lower_bound


def _value_for_price_max(
    problem: PackingProblem,
    *,
    item_values: Floats,
    resource_prices: Floats,
    budget: SearchBudget,
    settings: DualBoundSettings,
) -> tuple[float, Columns]:
    """An upper bound on value / price of any load, and columns with more value than price."""
    # [type], at first by the linear knapsack. The type with the largest bound is solved exactly, again and again, until the
    # largest has been or is near one: bounds of the other types cannot decide.
    pods_max = np.minimum(problem.fit, problem.counts[:, None])
    bounds = load_value_bound(problem, pods_max=pods_max, item_values=item_values, resource_prices=resource_prices)
    bounds = bounds / problem.prices
    types, loads = list[int](), list[Ints]()
    is_exact = np.zeros(len(bounds), dtype=np.bool_)
    while True:
        largest = MachineTypeIndex(int(np.argmax(bounds)))
        if is_exact[largest] or bounds[largest] <= 1 + settings.stop_gap_relative or not budget.step():
            break
        is_exact[largest] = True
        values = item_values / problem.prices[largest]
        bound, load = _knapsack(problem, largest, pods_max=pods_max[:, largest], item_values=values, settings=settings)
        bounds[largest] = min(bounds[largest], bound)
        if load @ item_values > problem.prices[largest]:
            types.append(largest)
            loads.append(load)
    return float(bounds.max()), Columns.of(types, loads, items=len(problem.counts))


def _knapsack(
    problem: PackingProblem,
    type_index: MachineTypeIndex,
    *,
    pods_max: Ints,
    item_values: Floats,
    settings: DualBoundSettings,
) -> tuple[float, Ints]:
    """An upper bound on the value of a type's best load, and a load ([item]); `pods_max` of each item ([item])."""
    # Maximise Σ_i v[i] x[i] subject to Σ_i s requests[i, r] / capacity[r] x[i] ≤ s for every resource r, 0 ≤ x ≤ pods_max, x
    # integral; over the items with a value and a place. HiGHS minimises, so costs are -v and the bound is its negative.
    # It tolerates a millionth in any row: the scale s is a million, so that no load a byte too large counts as the best.
    taken = np.flatnonzero((pods_max > 0) & (item_values > 0))
    requested = np.flatnonzero(problem.requests[taken].any(axis=0))
    capacity = np.maximum(problem.capacity[type_index, requested], 1).astype(float)
    shares = problem.requests[taken][:, requested] / capacity * settings.knapsack_row_scale
    columns = LpColumns(
        costs=-item_values[taken],
        upper=pods_max[taken].astype(float),
        starts=(np.arange(len(taken) + 1) * len(requested)).astype(np.int32),
        rows=np.tile(np.arange(len(requested)), len(taken)).astype(np.int32),
        coefficients=shares.ravel(),
    )
    gap = settings.knapsack_gap_relative
    limits = IntegerLimits(gap_relative=gap, nodes_max=settings.knapsack_nodes_max)
    program = LinearProgram(
        LpRows.at_most(np.full(len(requested), settings.knapsack_row_scale)), columns, integer=limits
    )
    program.solve()
    load = np.zeros(len(problem.counts), dtype=np.int64)
    if program.has_solution():
        load[taken] = np.floor(program.column_values() + 1e-6).astype(np.int64)
    if not (load @ problem.requests <= problem.capacity[type_index]).all():  # within the solver's tolerances only
        load[:] = 0
    return -program.integer_bound() * (1 + gap), load
