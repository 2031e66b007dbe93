"""Scaling, and merging similar items."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.relaxation.scaled_problem import JoinedItems, ScaledProblem
from tests.unit.packing.problems import SETTINGS, SIZES, a_problem

ONE_PAIR = replace(SETTINGS.fluid, pairs_max=1, size_steps_per_doubling=(1,))


def test_capacities_and_prices_are_scaled_to_at_most_one() -> None:
    """Otherwise, the solver's absolute tolerances mean a byte in one row and a core in another."""
    scaled = ScaledProblem.of(a_problem([(1, 4)], [3]))
    assert scaled.capacity.max(axis=0).tolist() == [1, 1, 1]
    assert scaled.prices.max() == 1
    assert scaled.price_unit == SIZES[-1][2] * 10**6


def test_resources_that_no_item_requests_have_no_row() -> None:
    problem = a_problem([(1, 0)], [3])
    assert ScaledProblem.of(problem).capacity.shape == (len(SIZES), 2)


def test_items_stay_separate_if_there_are_few() -> None:
    problem = a_problem([(1, 4), (1, 4)], [3, 5])
    joined = JoinedItems.of(problem, ScaledProblem.of(problem), SETTINGS.fluid)
    assert joined.joint.tolist() == [0, 1]
    assert joined.scaled.counts.tolist() == [3, 5]


def test_similar_items_are_merged_at_their_mean_and_their_total_stays() -> None:
    """Otherwise, the program launches machines for pods that do not exist."""
    problem = a_problem([(1.1, 3), (1.5, 3.5), (7, 30)], [3, 5, 2])
    scaled = ScaledProblem.of(problem)
    joined = JoinedItems.of(problem, scaled, ONE_PAIR)
    assert joined.joint[0] == joined.joint[1] != joined.joint[2]
    assert joined.share.tolist() == pytest.approx([3 / 8, 5 / 8, 1])
    assert np.allclose(joined.scaled.counts @ joined.scaled.requests, scaled.counts @ scaled.requests)


def test_items_that_fit_different_types_are_never_merged() -> None:
    may = [[True] * len(SIZES), [size < 4 for size in range(len(SIZES))]]
    problem = a_problem([(1, 4), (1, 4)], [3, 5], allowed=may)
    assert JoinedItems.of(problem, ScaledProblem.of(problem), ONE_PAIR).joint.tolist() in ([0, 1], [1, 0])
