"""The builder of linear programs."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.lp import UNBOUNDED, Coefficients, IntegerLimits, LinearProgram, LpColumns, LpRows

COSTS = np.array([3.0, 2.0])
COEFFICIENTS = np.array([[1.0, 2.0], [1.0, 0.0]])
"""[column, row]: the first covers one of the first row and two of the second, the second one of the first."""


def test_a_covering_program_gives_its_optimum_and_duals() -> None:
    program = LinearProgram(LpRows.at_least(np.array([4.0, 2.0])), LpColumns.dense(COSTS, COEFFICIENTS))
    program.solve()
    assert program.column_values().tolist() == pytest.approx([1, 3])
    assert program.row_duals().tolist() == pytest.approx([2, 0.5])  # 4 · 2 + 2 · 0.5 = 1 · 3 + 3 · 2


def test_coefficients_of_any_order_become_columns_in_floating_point() -> None:
    found = Coefficients()
    found.put(np.array([2, 0]), np.array([1, 1]), np.array([7, 5]))
    found.put(np.array([[1], [0]]), np.array([0, 2]), 3)
    columns = found.columns(np.array([9.0, 8.0, 6.0, 4.0]), np.full(4, UNBOUNDED))
    assert columns.starts.tolist() == [0, 2, 4, 6, 6]
    assert columns.rows.tolist() == [0, 1, 0, 2, 0, 1]
    assert columns.coefficients.tolist() == [3, 3, 5, 7, 3, 3]
    assert (columns.starts.dtype, columns.rows.dtype, columns.coefficients.dtype) == (np.int32, np.int32, float)


def test_columns_and_bounds_change_between_solutions() -> None:
    """Otherwise, column generation solves its first problem again and again."""
    program = LinearProgram(LpRows.at_least(np.zeros(2)), presolve=False)
    program.add_columns(LpColumns.dense(COSTS, COEFFICIENTS))
    program.set_rows(LpRows.at_least(np.array([4.0, 0.0])))
    program.solve()
    assert program.column_values().tolist() == pytest.approx([0, 4])
    program.add_columns(LpColumns.dense(np.array([1.0]), np.array([[1.0, 0.0]])))
    program.solve()
    assert program.column_values().tolist() == pytest.approx([0, 0, 4])
    program.set_costs(np.array([3.0, 2.0, 9.0]))
    program.solve()
    assert program.column_values().tolist() == pytest.approx([0, 4, 0])


def test_the_primal_simplex_finds_the_optimum_of_the_dual_one() -> None:
    """Otherwise, a solution from another start is worse, or the next change of rows is solved wrongly."""
    programs = [LinearProgram(LpRows.at_least(np.zeros(2)), presolve=False) for _ in range(2)]
    for program in programs:
        program.add_columns(LpColumns.dense(COSTS, COEFFICIENTS))
    found = []
    for demand, cost, is_feasible in ((4.0, 9.0, False), (4.0, 1.0, True), (4.0, 0.5, True), (7.0, 0.25, False)):
        for number, program in enumerate(programs):
            program.set_rows(LpRows.at_least(np.array([demand, 1.0])))
            program.add_columns(LpColumns.dense(np.array([cost]), np.array([[1.0, 0.0]])))
            program.solve(is_feasible=bool(number) and is_feasible)
        found.append([program.row_duals().tolist() for program in programs])
    assert all(primal == pytest.approx(dual) for dual, primal in found)
    assert found[-1][0] == pytest.approx([0.25, 1.375])


def test_it_needs_fewer_steps_to_continue_than_the_dual_simplex_needs() -> None:
    """Otherwise, each round of column generation costs more, for which `is_feasible` is there."""
    dice = np.random.default_rng(2)
    programs = [LinearProgram(LpRows.at_least(np.full(30, 10.0)), presolve=False) for _ in range(2)]
    steps = [0, 0]
    added = LpColumns.dense(np.full(30, 9.0), np.eye(30))
    for number in range(8):
        for primal, program in enumerate(programs):
            program.add_columns(added)
            program.solve(is_feasible=bool(primal and number))
            steps[primal] += program._solver.getInfo().simplex_iteration_count
        assert programs[1].row_duals().sum() == pytest.approx(programs[0].row_duals().sum())
        added = LpColumns.dense(dice.integers(5, 20, 40).astype(float), dice.integers(0, 4, (40, 30)).astype(float))
    assert steps[1] < 0.9 * steps[0]


def test_upper_bounds_change_between_solutions() -> None:
    program = LinearProgram(LpRows.at_most(np.array([3.0])), LpColumns.dense(np.array([-5.0]), np.array([[2.0]])))
    for upper, most in ((1.0, 1.0), (9.0, 1.5)):
        program.set_upper(np.array([upper]))
        program.solve()
        assert program.column_values().tolist() == pytest.approx([most])


def test_a_capacity_row_has_a_negative_dual() -> None:
    columns = LpColumns.dense(np.array([-5.0]), np.array([[2.0]]))
    program = LinearProgram(LpRows.at_most(np.array([3.0])), columns)
    program.solve()
    assert program.column_values().tolist() == pytest.approx([1.5])
    assert program.row_duals().tolist() == pytest.approx([-2.5])


def test_an_integral_program_proves_a_bound() -> None:
    columns = LpColumns.dense(np.array([-5.0]), np.array([[2.0]]))
    limits = IntegerLimits(gap_relative=1e-6, nodes_max=100)
    program = LinearProgram(LpRows.at_most(np.array([3.0])), columns, integer=limits)
    program.solve()
    assert program.column_values().tolist() == pytest.approx([1])
    assert program.integer_bound() == pytest.approx(-5)


def test_zeros_of_a_dense_matrix_are_left_out() -> None:
    columns = LpColumns.dense(COSTS, COEFFICIENTS)
    assert columns.starts.tolist() == [0, 2, 3]
    assert columns.rows.tolist() == [0, 1, 0]
    assert columns.coefficients.tolist() == [1, 2, 1]
    assert (columns.upper == UNBOUNDED).all()


def test_coefficients_given_in_any_order_are_sorted_by_column() -> None:
    entries = Coefficients()
    entries.put(np.array([1, 0]), np.array([1, 0]), np.array([4.0, 1.0]))
    entries.put(np.array([1]), np.array([0]), 2.0)
    columns = entries.columns(COSTS, np.full(2, UNBOUNDED))
    assert (columns.starts.tolist(), columns.rows.tolist()) == ([0, 2, 3], [0, 1, 1])
    assert columns.coefficients.tolist() == [1, 2, 4]
