"""Shadow prices of a machine's resources, for each type separately: the duals of its knapsack with divisible pods."""

from __future__ import annotations

import numpy as np

from core.packing.lp import LinearProgram, LpColumns, LpRows
from core.packing.problem import Floats, Ints, PackingProblem


class ShadowPrices:
    """The fractional knapsacks of all types as one linear program, solved repeatedly for other item values and demands.

    For every type t: maximise  Σ_i item_values[i] x[i, t]  subject to  Σ_i requests[i, r] x[i, t] ≤ capacity[t, r]  for every
    resource r,  0 ≤ x[i, t] ≤ min(fit[i, t], demand[i]).  Rows are scaled to a capacity of one and values to the type's price.
    """

    def __init__(self, problem: PackingProblem) -> None:
        """Build the program for all pods."""
        pods_max = np.minimum(problem.fit, problem.counts[:, None])
        self._prices = problem.prices.astype(float)
        self._requested = np.flatnonzero(problem.requests.any(axis=0))
        self._item, self._host = np.nonzero(pods_max > 0)
        self._fit = problem.fit[self._item, self._host]
        self._all = self._demand = problem.counts
        self._capacity = np.maximum(problem.capacity[:, self._requested], 1).astype(float)
        self._shape = (len(self._capacity), problem.requests.shape[1])
        # One variable for each pair (item, host) where a pod fits, with one coefficient in each of the host's rows, which are
        # numbered type-major: host · resources + resource.
        resources, pairs = len(self._requested), len(self._item)
        shares = problem.requests[self._item][:, self._requested] / self._capacity[self._host]
        columns = LpColumns(
            costs=np.zeros(pairs),
            upper=pods_max[self._item, self._host].astype(float),
            starts=(np.arange(pairs + 1) * resources).astype(np.int32),
            rows=(self._host[:, None] * resources + np.arange(resources)).ravel().astype(np.int32),
            coefficients=shares.ravel(),
        )
        self._program = LinearProgram(LpRows.at_most(np.ones(self._capacity.size)), columns, presolve=False)

    def under(self, item_values: Floats, demand: Ints | None = None) -> Floats:
        """[type, resource], nano-dollars per hour for one unit of a resource.

        Args:
            item_values: [item], what a pod is worth.
            demand: [item], how many pods there are; all of them if None.
        """
        demand = self._all if demand is None else demand
        if not np.array_equal(demand, self._demand):
            self._demand = demand
            self._program.set_upper(np.minimum(self._fit, demand[self._item]).astype(float))
        self._program.set_costs(-item_values[self._item] / self._prices[self._host])
        self._program.solve()
        duals = np.maximum(-self._program.row_duals(), 0).reshape(self._capacity.shape)
        prices = np.zeros(self._shape)
        prices[:, self._requested] = duals * self._prices[:, None] / self._capacity  # back from the scaled rows
        return prices


def load_value_bound(
    problem: PackingProblem, *, pods_max: Ints, item_values: Floats, resource_prices: Floats
) -> Floats:
    """[type], an upper bound on the value of any load of a machine (weak duality); it holds for any resource prices ≥ 0.

    Args:
        problem: The types of machine.
        pods_max: [item, type], how many pods of an item one machine may get.
        item_values: [item], what a pod is worth.
        resource_prices: [type, resource], what a unit of the resource is worth.
    """
    # value(load) = Σ_i load[i] v[i] ≤ capacity · u + Σ_i load[i] (v[i] - requests[i] · u) for u ≥ 0 and a load that fits, and
    # each term of the sum is at most pods_max[i] max(v[i] - requests[i] · u, 0).
    surplus = np.maximum(item_values[:, None] - problem.requests @ resource_prices.T, 0) * pods_max
    bound: Floats = (problem.capacity * resource_prices).sum(axis=1) + surplus.sum(axis=0)
    return bound


def value_for_price_max(
    problem: PackingProblem, *, demand: Ints, item_values: Floats, resource_prices: Floats
) -> float:
    """An upper bound on value / price of any machine's load; item values over it are dual feasible for the master problem."""
    bound = load_value_bound(
        problem,
        pods_max=np.minimum(problem.fit, demand[:, None]),
        item_values=item_values,
        resource_prices=resource_prices,
    )
    return float((bound / problem.prices).max())
