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


def test_items_are_merged_no_more_than_the_number_of_pairs_requires() -> None:
    """Two items on eight types are sixteen pairs: with one pair fewer allowed, the coarser step merges all three."""
    problem = a_problem([(1.1, 3), (1.111, 3.03), (1.9, 3.9)], [3, 5, 2])
    scaled = ScaledProblem.of(problem)
    numbers = []
    for pairs_max in (24, 23, 16, 15):
        settings = replace(SETTINGS.fluid, pairs_max=pairs_max, size_steps_per_doubling=(8, 1))
        joint = JoinedItems.of(problem, scaled, settings).joint
        numbers.append((len(set(joint.tolist())), bool(joint[0] == joint[1])))
    assert numbers == [(3, False), (2, True), (2, True), (1, True)]


def test_of_many_types_only_as_many_count_as_the_program_is_expected_to_use() -> None:
    problem = a_problem([(1.1, 3), (1.111, 3.03), (1.9, 3.9)], [3, 5, 2])
    few = replace(SETTINGS.fluid, pairs_max=6, size_steps_per_doubling=(8, 1), types_expected=2)
    assert JoinedItems.of(problem, ScaledProblem.of(problem), few).joint.tolist() == [0, 1, 2]
    more = replace(few, types_expected=3)
    assert len(set(JoinedItems.of(problem, ScaledProblem.of(problem), more).joint.tolist())) == 2
