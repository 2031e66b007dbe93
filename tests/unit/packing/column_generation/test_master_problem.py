"""The restricted master problem."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.column_generation.columns import Columns
from core.packing.column_generation.master_problem import MasterProblem
from core.packing.column_generation.substitution_columns import Substitutions
from core.packing.lp import LinearProgram
from core.packing.size_settings import MasterProblemSettings
from tests.unit.packing.problems import MILLS, a_problem

PROBLEM = a_problem([(1.5, 3), (1, 2)], [3, 3])


def a_master() -> MasterProblem:
    master = MasterProblem(PROBLEM, Substitutions.of(PROBLEM))
    assert master.add(Columns(np.array([0, 0]), np.array([[1, 0], [0, 1]]))) == 2
    return master


def test_it_buys_the_cheapest_mix_of_known_columns() -> None:
    """Otherwise, later stages round a plan that is not optimal."""
    master = a_master()
    assert master.solved(PROBLEM.counts).cost == pytest.approx(6 * 85 * MILLS)
    assert master.add(Columns(np.array([3]), np.array([[4, 2]]))) == 1
    solution = master.solved(PROBLEM.counts)
    assert solution.cost == pytest.approx(340 * MILLS)  # the second item uses a place of the first
    assert solution.machines.tolist() == pytest.approx([0, 0, 1])
    assert solution.flows.tolist() == pytest.approx([1])


def test_it_continues_from_its_solution_where_only_columns_are_added(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, a target's search pays for fewer rounds in the same time, or stops at a solution that is not optimal."""
    told: dict[LinearProgram, list[bool]] = {}
    solve = LinearProgram.solve

    def noted(program: LinearProgram, *, is_feasible: bool = False) -> None:
        told.setdefault(program, []).append(is_feasible)
        solve(program, is_feasible=is_feasible)

    monkeypatch.setattr(LinearProgram, "solve", noted)
    masters = [
        MasterProblem(PROBLEM, Substitutions.of(PROBLEM), MasterProblemSettings(continues_primal=continues))
        for continues in (False, True)
    ]
    for columns in (Columns(np.array([0, 0]), np.eye(2, dtype=np.int64)), Columns(np.array([3]), np.array([[4, 2]]))):
        for demand in (PROBLEM.counts, PROBLEM.counts - 1, PROBLEM.counts):
            for master in masters:
                master.add(columns)
            costs = [master.solved(demand).cost for master in masters]
            assert costs[1] == pytest.approx(costs[0])
    assert list(told.values()) == [[False] * 6, [False, False, False, True, False, False]]


def test_a_known_column_is_not_added_again() -> None:
    """Otherwise, column generation never ends: it finds the same column in each round."""
    assert a_master().add(Columns(np.array([0]), np.array([[0, 1]]))) == 0


def test_dual_prices_are_the_cost_of_one_more_pod() -> None:
    master = a_master()
    before = master.solved(PROBLEM.counts)
    after = master.solved(PROBLEM.counts + np.array([1, 0]))
    assert after.cost - before.cost == pytest.approx(before.item_values[0])


def test_whole_columns_become_machines() -> None:
    packing = a_master().bought(np.array([2, 1]))
    assert packing.types.tolist() == [0, 0, 0]
    assert packing.loads.tolist() == [[1, 0], [1, 0], [0, 1]]
    nothing = a_master().bought(np.zeros(2, dtype=np.int64))
    assert nothing.types.tolist() == []
    assert nothing.loads.shape == (0, 2)
    assert nothing.types.dtype == nothing.loads.dtype == np.int64  # whole machines and pods are counted, even none
