"""Columns of the master problem."""

from __future__ import annotations

import numpy as np

from core.packing.column_generation.columns import Columns
from core.packing.problem import Packing
from tests.unit.packing.problems import a_problem


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
