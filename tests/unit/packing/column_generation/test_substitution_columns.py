"""Which items may use another item's places."""

from __future__ import annotations

import numpy as np

from core.packing.column_generation.substitution_columns import Substitutions
from tests.unit.packing.problems import SIZES, a_problem

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
