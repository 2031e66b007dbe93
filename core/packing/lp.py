"""Linear programs for HiGHS, from numpy arrays: one builder for all of them.

Every program is silent, runs on one thread and has a fixed seed, so that it gives the same result in every process.
"""

from __future__ import annotations

from typing import Final

import highspy
import msgspec
import numpy as np
from numpy.typing import NDArray

from core.packing.problem import Floats, Ints

Int32s = NDArray[np.int32]

UNBOUNDED = highspy.kHighsInf
"""A bound that never binds."""

_SEARCHES: Final = (
    "mip_heuristic_run_feasibility_jump",
    "mip_heuristic_run_rins",
    "mip_heuristic_run_rens",
    "mip_heuristic_run_root_reduced_cost",
    "mip_detect_symmetry",
    "mip_allow_restart",
)
"""Options of HiGHS by which it looks for solutions of an integer program."""


class LpRows(msgspec.Struct, frozen=True, eq=False):
    """Constraints: lower ≤ (A x) ≤ upper.

    Attributes:
        lower: [row].
        upper: [row].
    """

    lower: Floats
    upper: Floats

    @classmethod
    def at_least(cls, lower: Floats) -> LpRows:
        """Covering rows."""
        return cls(lower, np.full(len(lower), UNBOUNDED))

    @classmethod
    def at_most(cls, upper: Floats) -> LpRows:
        """Capacity rows."""
        return cls(np.full(len(upper), -UNBOUNDED), upper)


class LpColumns(msgspec.Struct, frozen=True, eq=False):
    """Variables 0 ≤ x ≤ upper with their costs and coefficients, compressed by column.

    Attributes:
        costs: [column].
        upper: [column].
        starts: [column + 1], where each column's coefficients begin; the last entry is how many there are in all.
        rows: [coefficient], the row of each.
        coefficients: [coefficient].
    """

    costs: Floats
    upper: Floats
    starts: Int32s
    rows: Int32s
    coefficients: Floats

    @classmethod
    def dense(cls, costs: Floats, matrix: Floats) -> LpColumns:
        """Columns without an upper bound from a dense `matrix`, [column, row]; zeros are left out."""
        column, row = np.nonzero(matrix)
        starts = np.searchsorted(column, np.arange(len(costs) + 1)).astype(np.int32)
        return cls(costs, np.full(len(costs), UNBOUNDED), starts, row.astype(np.int32), matrix[column, row])


class Coefficients:
    """Collects the coefficients of a sparse matrix, in any order; each place is given once."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints, Floats]] = []

    def put(self, rows: Ints, columns: Ints, values: Floats | float) -> None:
        """Add coefficients; the three are broadcast against each other."""
        row, column, value = np.broadcast_arrays(rows, columns, np.asarray(values, dtype=float))
        self._parts.append((row.ravel(), column.ravel(), value.ravel()))

    def columns(self, costs: Floats, upper: Floats) -> LpColumns:
        """Return the matrix by column."""
        # Compressed sparse columns: the coefficients of column j are entries starts[j] to starts[j + 1], where
        # starts[j] = Σ_{k < j} (number of coefficients of column k); within a column they are in order of rows.
        row, column, value = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        order = np.lexsort((row, column))
        starts = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=len(costs)))]).astype(np.int32)
        return LpColumns(costs, upper, starts, row[order].astype(np.int32), value[order])


class IntegerLimits(msgspec.Struct, frozen=True):
    """When a mixed-integer search stops.

    Attributes:
        gap_relative: Distance of the best solution from the bound that is good enough.
        nodes_max: Most nodes of the branch-and-bound tree.
        seeks_solutions: Whether heuristics look for solutions; without them, and without restarts, a bound alone is found in a
            tenth of the time.
    """

    gap_relative: float
    nodes_max: int
    seeks_solutions: bool = True


class LinearProgram:
    """Minimise costs · x subject to lower ≤ A x ≤ upper and 0 ≤ x ≤ x_upper; solved again from its last basis."""

    def __init__(
        self,
        rows: LpRows,
        columns: LpColumns | None = None,
        *,
        presolve: bool = True,
        integer: IntegerLimits | None = None,
    ) -> None:
        """Build the program.

        Args:
            rows: Its constraints.
            columns: Its variables; without any, `add_columns` adds them.
            presolve: Whether HiGHS simplifies the program first. It discards the basis: leave it out of repeated solving.
            integer: With limits, every variable is integral.
        """
        columns = LpColumns.dense(np.zeros(0), np.zeros((0, 0))) if columns is None else columns
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(columns.costs), len(rows.lower)
        model.col_cost_, model.col_lower_, model.col_upper_ = columns.costs, np.zeros(len(columns.costs)), columns.upper
        model.row_lower_, model.row_upper_ = rows.lower, rows.upper
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_, model.a_matrix_.index_ = columns.starts, columns.rows
        model.a_matrix_.value_ = columns.coefficients
        self._solver = _solver(presolve=presolve)
        self._is_primal = False
        if integer is not None:
            model.integrality_ = [highspy.HighsVarType.kInteger] * len(columns.costs)
            self._solver.setOptionValue("mip_rel_gap", integer.gap_relative)
            self._solver.setOptionValue("mip_max_nodes", integer.nodes_max)
            if not integer.seeks_solutions:
                self._solver.setOptionValue("mip_heuristic_effort", 0.0)
                for option in _SEARCHES:
                    self._solver.setOptionValue(option, False)
        self._solver.passModel(model)

    def add_columns(self, columns: LpColumns) -> None:
        """Add variables; the basis stays."""
        count, none = len(columns.costs), np.zeros(len(columns.costs))
        begins, entries = columns.starts[:-1], len(columns.rows)
        self._solver.addCols(
            count, columns.costs, none, columns.upper, entries, begins, columns.rows, columns.coefficients
        )

    def set_rows(self, rows: LpRows) -> None:
        """Change the bounds of all rows."""
        index = np.arange(len(rows.lower), dtype=np.int32)
        self._solver.changeRowsBounds(len(index), index, rows.lower, rows.upper)  # type: ignore[attr-defined]  # missing in its stubs

    def set_costs(self, costs: Floats) -> None:
        """Change the costs of all columns."""
        index = np.arange(len(costs), dtype=np.int32)
        self._solver.changeColsCost(len(index), index, costs)

    def set_upper(self, upper: Floats) -> None:
        """Change the upper bounds of all columns."""
        index = np.arange(len(upper), dtype=np.int32)
        self._solver.changeColsBounds(len(index), index, np.zeros(len(upper)), upper)

    def solve(self, *, is_feasible: bool = False) -> None:
        """Solve to optimality, without a time limit: with one, the clock would decide the result.

        `is_feasible`: whether the last solution still is one, as after `add_columns`. The primal simplex then continues from
        it, without perturbed bounds. The dual simplex, which is used otherwise, cannot: the duals are no longer feasible.
        """
        if is_feasible != self._is_primal:
            self._is_primal = is_feasible
            strategies = highspy.simplex_constants.SimplexStrategy
            strategy = strategies.kSimplexStrategyPrimal if is_feasible else strategies.kSimplexStrategyDual
            self._solver.setOptionValue("simplex_strategy", int(strategy))
            self._solver.setOptionValue("primal_simplex_bound_perturbation_multiplier", 0.0 if is_feasible else 1.0)
        self._solver.run()

    def has_solution(self) -> bool:
        """Whether the constraints can be met; if not, `column_values` may still return where the solver ended."""
        return bool(self._solver.getSolution().value_valid)

    def column_values(self) -> Floats:
        """[column], the solution."""
        return np.array(self._solver.getSolution().col_value)

    def row_duals(self) -> Floats:
        """[row], the rise of the optimum per unit by which the row's binding bound rises."""
        return np.array(self._solver.getSolution().row_dual)

    def integer_bound(self) -> float:
        """A lower bound on the cost of every integral solution; only for programs with integer limits."""
        return float(self._solver.getInfo().mip_dual_bound)


def _solver(*, presolve: bool) -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy says nothing of its types
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    if not presolve:
        solver.setOptionValue("presolve", "off")
    return solver
