"""The restricted master problem: how often each known column is bought so that every pod has a place at the least cost."""

from __future__ import annotations

import msgspec
import numpy as np

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.substitution_columns import Substitutions
from core.packing.lp import LinearProgram, LpColumns, LpRows
from core.packing.problem import Floats, Ints, Packing, PackingProblem, distinct_loads
from core.packing.size_settings import MasterProblemSettings


class MasterSolution(msgspec.Struct, frozen=True, eq=False):
    """An optimum over the columns known so far.

    Attributes:
        cost: Nano-dollars per hour; machines may be split.
        machines: [column], how many are bought.
        flows: [substitution], how many places of an item go to pods of another.
        item_values: [item], the dual price: what one more pod would cost.
    """

    cost: float
    machines: Floats
    flows: Floats
    item_values: Floats


class MasterProblem:
    """One covering row for each item, one variable for each column, and one without cost for each substitution.

    Minimise  Σ_c price[c] λ[c]
    subject to  Σ_c load[c, i] λ[c] - Σ_(i→j) f + Σ_(j→i) f ≥ demand[i]  for every item i,  and  λ, f ≥ 0.
    Substitution variables f keep the dual prices in the order of the requests, so few columns are needed to get them right.
    Prices are scaled to at most one for the solver.
    """

    def __init__(
        self, problem: PackingProblem, substitutions: Substitutions, settings: MasterProblemSettings | None = None
    ) -> None:
        self._problem = problem
        self._settings = settings or MasterProblemSettings()
        self._demand: Ints | None = None
        self._price_unit = float(problem.prices.max())
        self._substitutions = len(substitutions.pairs)
        self._keys: dict[tuple[int, bytes], None] = {}
        self._types: list[int] = []
        self._loads: list[Ints] = []
        self._program = LinearProgram(LpRows.at_least(np.zeros(len(problem.counts))), presolve=False)
        if self._substitutions:
            number, coefficients = np.arange(self._substitutions), np.zeros((self._substitutions, len(problem.counts)))
            coefficients[number, substitutions.pairs[:, 0]] = -1
            coefficients[number, substitutions.pairs[:, 1]] = 1
            self._program.add_columns(LpColumns.dense(np.zeros(self._substitutions), coefficients))

    def loads(self, item_values: Floats, value_for_price_min: float) -> Ints:
        """Return [load, item], the distinct loads of columns with at least this value for their price."""
        loads = np.array(self._loads, dtype=np.int64)
        is_worth_it = loads @ item_values >= self._problem.prices[self._types] * value_for_price_min
        return distinct_loads(loads[is_worth_it])

    def add(self, columns: Columns) -> int:
        """Add columns, and return how many were new."""
        new = [i for i, key in enumerate(columns.keys()) if self._is_new(key)]
        if new:
            types, loads = columns.types[new], columns.loads[new]
            self._types += types.tolist()
            self._loads += list(loads)
            costs = self._problem.prices[types] / self._price_unit
            self._program.add_columns(LpColumns.dense(costs, loads.astype(float)))
        return len(new)

    def solved(self, demand: Ints) -> MasterSolution:
        """Return the optimum for this many pods of each item; the solver starts from its last basis.

        If only columns were added since, that is a solution already, and the primal simplex may continue (docs/adr/0276).
        """
        is_feasible = self._demand is not None and np.array_equal(demand, self._demand)
        self._demand = demand.copy()
        self._program.set_rows(LpRows.at_least(demand.astype(float)))
        self._program.solve(is_feasible=is_feasible and self._settings.continues_primal)
        amounts = np.maximum(self._program.column_values(), 0)
        item_values = np.maximum(self._program.row_duals(), 0) * self._price_unit
        flows, machines = amounts[: self._substitutions], amounts[self._substitutions :]
        return MasterSolution(float(item_values @ demand), machines, flows, item_values)

    def bought(self, times: Ints) -> Packing:
        """Return this many machines of each known column ([column]) as a packing."""
        columns = np.flatnonzero(times)
        types = np.array([self._types[i] for i in columns], dtype=np.int64)
        loads = np.array([self._loads[i] for i in columns], dtype=np.int64)
        loads = loads.reshape(len(columns), len(self._problem.counts))
        return Packing(np.repeat(types, times[columns]), np.repeat(loads, times[columns], axis=0))

    def _is_new(self, key: tuple[int, bytes]) -> bool:
        is_new = key not in self._keys
        self._keys[key] = None
        return is_new
