"""Bundles of types, each with the capacity of its smallest type."""

from __future__ import annotations

import numpy as np

from core.packing.relaxation.launch_flexibility import DistinctValues, bundled, with_distinct_values
from tests.unit.packing.problems import SETTINGS, of_every_size, of_families

FLEXIBILITY = SETTINGS.launch_flexibility


def test_a_load_that_fits_a_bundle_fits_each_of_its_types() -> None:
    """Otherwise, a launch that falls back on another type gets a node that is too small."""
    problem = of_families(20)
    held = bundled(problem, FLEXIBILITY)
    assert held is not None
    for capacity, price in zip(held.capacity, held.prices, strict=True):
        price_max = price * FLEXIBILITY.bundle_price_ratio_max
        fitting = (problem.capacity >= capacity).all(axis=1) & (problem.prices <= price_max)
        assert fitting.sum() >= FLEXIBILITY.bundle_types


def test_too_few_types_make_no_bundle() -> None:
    """Otherwise, pods that fitted one type fit nowhere."""
    problem = of_families(3)
    held = bundled(problem, FLEXIBILITY)
    assert held is not None
    assert held.capacity.tolist() == problem.capacity.tolist()


def test_a_load_fits_types_with_as_many_values_as_min_values_require() -> None:
    """Otherwise, a launch has fewer families to choose from than its NodePool requires."""
    problem = of_families(5)
    family_of = [(str(row % 5),) for row in range(len(problem.prices))]
    held = with_distinct_values(problem, [DistinctValues(family_of, 3)])
    for capacity in held.capacity:
        fitting = np.flatnonzero((problem.capacity >= capacity).all(axis=1))
        assert len({family_of[row] for row in fitting}) >= 3


def test_a_requirement_that_cannot_be_met_changes_nothing() -> None:
    problem = of_every_size(5)
    wanted = DistinctValues([("only",)] * 5, 2)
    assert with_distinct_values(problem, [wanted]).capacity.tolist() == problem.capacity.tolist()
