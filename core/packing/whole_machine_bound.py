"""A lower bound from whole machines, for plans of so few that the fluid relaxation, which buys parts of machines, is weak.

A few machines' prices seldom add up to the fluid relaxation's optimum. The bound is the least cost of whole machines that offer
what all pods request together: pods may be split and may run anywhere, so it holds for every packing.
"""

from __future__ import annotations

import numpy as np

from core.packing.lp import IntegerLimits, LinearProgram, LpColumns, LpRows
from core.packing.problem import PackingProblem
from core.packing.size_settings import WholeMachineBoundSettings


def whole_machine_bound(problem: PackingProblem, *, cost: int, settings: WholeMachineBoundSettings) -> int:
    """Return a lower bound on the nano-dollars per hour of every packing; never more than `cost`, that of a known one.

    Args:
        problem: The pods and all types that might hold them.
        cost: The cost of a known packing: types that only costlier packings use are left out.
        settings: When the integer program ends.
    """
    # Minimise Σ_t price[t] y[t] subject to Σ_t capacity[t, r] y[t] ≥ Σ_i counts[i] requests[i, r] for every resource r and
    # integers y ≥ 0. Rows are scaled to one, and prices to at most one.
    total = problem.counts @ problem.requests
    requested = np.flatnonzero(total)
    shares = problem.capacity[:, requested] / total[requested]
    unit = float(problem.prices.max())
    prices, rows = problem.prices / unit, LpRows.at_least(np.ones(len(requested)))
    fractional = LinearProgram(rows, LpColumns.dense(prices, shares))
    fractional.solve()
    # Duals u ≥ 0 with shares · u ≤ price: any whole machines cost at least Σ_r u[r], and with a machine of type t at least
    # its reduced cost, price[t] - shares[t] · u, more.
    duals = np.maximum(fractional.row_duals(), 0)
    reduced_costs = prices - shares @ duals
    may_save = np.flatnonzero(duals.sum() + reduced_costs <= cost / unit)
    if not may_save.size:
        return cost
    limits = IntegerLimits(gap_relative=settings.gap_relative, nodes_max=settings.nodes_max, seeks_solutions=False)
    whole = LinearProgram(rows, LpColumns.dense(prices[may_save], shares[may_save]), integer=limits)
    whole.solve()
    return min(cost, int(whole.integer_bound() * unit * (1 - settings.slack_relative)))
