"""The restricted master problem."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing import problem
from core.packing.columns import Columns, MasterProblem, Substitutions
from core.packing.problem import IntegerLimits, LinearProgram, Packing, PackingProblem
from core.packing.settings import MasterProblemSettings
from tests.unit.packing.problems import MILLS, SIZES, a_problem

# Columns of the master problem.


def test_an_item_alone_uses_the_type_with_the_lowest_cost_per_pod() -> None:
    columns = Columns.of_single_items(a_problem([(1, 4), (17, 33)], [64, 3]))
    assert columns.types.tolist() == [1, 6]  # 48 thousandths a pod on every general machine; the smallest comes first
    assert columns.loads.tolist() == [[2, 0], [0, 1]]


def test_a_column_has_at_most_the_existing_pods() -> None:
    columns = Columns.of_single_items(a_problem([(0.1, 0.1)], [3]))
    assert columns.loads.tolist() == [[3]]


def test_loads_are_held_by_the_cheapest_types() -> None:
    """Loads that are empty, that no machine has the capacity for, or whose pods must be apart are no columns."""
    problem = a_problem([(1, 2), (1, 7)], [9, 9], per_machine_max=[0, 2])
    loads = np.array([[1, 0], [0, 1], [0, 0], [1, 2], [0, 3], [99, 0]])
    columns = Columns.of_loads(problem, loads)
    assert columns.loads.tolist() == [[1, 0], [0, 1], [1, 2]]
    assert columns.types.tolist() == [0, 1, 3]


def test_columns_are_distinguished_by_type_and_load() -> None:
    columns = Columns.of_packing(Packing(np.array([0, 1, 0]), np.array([[1], [1], [1]])))
    assert len(columns) == 3
    assert len(set(columns.keys())) == 2


def test_an_empty_set_of_columns_is_valid() -> None:
    assert Columns.of([], [], items=3).loads.shape == (0, 3)


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


# Which items may use another item's places.


EVERYWHERE = [True] * len(SIZES)
SMALL_ONLY = [cpu == 2 for cpu, _, _ in SIZES]


def test_a_place_may_go_to_pods_that_request_no_more_and_may_run_there() -> None:
    """Otherwise, a pod is placed where it has no room, or may not run."""
    problem = a_problem([(4, 8), (2, 8), (1, 2), (1, 16)], [1] * 4)
    assert Substitutions.of(problem).pairs.tolist() == [[0, 1], [1, 2], [3, 2]]
    picky = a_problem([(1.5, 3), (1, 2)], [1, 1], allowed=[EVERYWHERE, SMALL_ONLY])
    assert Substitutions.of(picky).pairs.tolist() == []


def test_of_equal_items_the_later_uses_places_of_the_earlier() -> None:
    """Otherwise, substitutions form a circle."""
    assert Substitutions.of(a_problem([(1, 2), (1, 2)], [1, 1])).pairs.tolist() == [[0, 1]]


def test_a_capped_item_uses_no_foreign_places() -> None:
    """Otherwise, places of several items together exceed its cap on a machine."""
    problem = a_problem([(2, 4), (1, 2)], [4, 4], per_machine_max=[0, 1])
    assert Substitutions.of(problem).pairs.tolist() == []


def test_superfluous_places_go_to_substitutes_or_stay_empty() -> None:
    """Otherwise, pods are launched twice, or small ones wait next to empty places."""
    problem = a_problem([(4, 8), (2, 8), (1, 2)], [1, 1, 1])
    assigned = Substitutions.of(problem).assigned(
        np.array([[2, 0, 0], [1, 1, 0]]),
        flows=np.array([2.0, 1.5]),
        demand=problem.counts,
        integrality_tolerance=1e-6,
    )
    assert assigned.sum(axis=0).tolist() == [1, 1, 1]


def test_all_loads_of_few_pods_are_columns_and_those_of_many_are_none() -> None:
    """Two small pods and a large one on machines of two sizes: every combination that some machine holds, on the cheapest."""
    problem = PackingProblem.of(
        requests=np.array([[1], [3]]),
        counts=np.array([2, 1]),
        capacity=np.array([[2], [4]]),
        prices=np.array([10, 15]),
        allowed=np.ones((2, 2), dtype=np.bool_),
    )
    columns = Columns.all_of(problem, 6)
    assert columns is not None
    assert columns.loads.tolist() == [[0, 1], [1, 0], [1, 1], [2, 0]]
    assert columns.types.tolist() == [1, 0, 1, 0]
    assert Columns.all_of(problem, 5) is None


def test_the_best_mix_of_whole_columns_is_bought_whole() -> None:
    """Half a machine for each of three pods costs less than two machines, which are the cheapest whole ones."""
    problem = PackingProblem.of(
        requests=np.array([[1]]),
        counts=np.array([3]),
        capacity=np.array([[2]]),
        prices=np.array([10]),
        allowed=np.ones((1, 1), dtype=np.bool_),
    )
    master = MasterProblem(problem, Substitutions.of(problem))
    master.add(Columns.of_loads(problem, np.array([[2], [1]])))
    assert master.solved(problem.counts).cost == pytest.approx(15)
    whole = master.whole(problem.counts, IntegerLimits(gap_relative=0.0, nodes_max=10))
    assert whole is not None
    assert whole.cost == pytest.approx(20)
    assert whole.machines.sum() == 2


@pytest.mark.parametrize("iterations_max", [0, 3, 40, problem.PRIMAL_ITERATIONS_MAX])
def test_the_dual_simplex_takes_over_where_the_primal_one_finds_no_end(
    iterations_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without perturbed bounds it may turn in circles, and the program has no time limit."""
    monkeypatch.setattr(problem, "PRIMAL_ITERATIONS_MAX", iterations_max)
    draw, rows, optima = np.random.default_rng(3), 60, list[float]()
    program = problem.LinearProgram(problem.LpRows.at_least(draw.integers(1, 4, rows).astype(float)), presolve=False)
    program.add_columns(problem.LpColumns.dense(np.full(rows, 3.0), np.eye(rows)))
    program.solve()
    costs = np.full(rows, 3.0)
    for _ in range(4):
        added = draw.integers(1, 4, 100).astype(float)
        program.add_columns(problem.LpColumns.dense(added, (draw.random((100, rows)) < 0.1).astype(float)))
        program.solve(is_feasible=True)
        costs = np.concatenate([costs, added])
        optima.append(float(costs @ program.column_values()))
    assert np.allclose(optima, [28.0, 22.428571, 20.033580, 18.403756]), "the optima of the dual simplex alone"
