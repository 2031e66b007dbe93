"""Bundles of types, each with the capacity of its smallest type."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.relaxation.launch_flexibility import DistinctValues, bundled, with_distinct_values
from tests.unit.packing.problems import SETTINGS, a_market, of_every_size, of_families

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


@pytest.mark.parametrize("seed", range(40))
def test_a_bundle_is_the_nearest_types_that_are_cheap_enough_and_admit_the_same_items(seed: int) -> None:
    """Otherwise, a type is as small as another that costs too much, or that its pods may not use."""
    limits = replace(FLEXIBILITY, bundle_types=3, smaller_share_max=0.25, bundle_price_ratio_max=1.5)
    problem = a_market(seed)  # of whole prices and sizes, many of them at the very borders
    expected: Counter[tuple[int, ...]] = Counter()
    for capacity, price, admitted in zip(problem.capacity, problem.prices, problem.allowed.T, strict=True):
        smaller = np.maximum(0, 1 - problem.capacity / np.maximum(capacity, 1)).max(axis=1)
        is_open = (admitted[:, None] <= problem.allowed).all(axis=0) & (smaller <= limits.smaller_share_max)
        is_open &= problem.prices <= limits.bundle_price_ratio_max * price
        nearest = sorted(np.flatnonzero(is_open), key=lambda t: (smaller[t], t))[:3]
        if len(nearest) == 3:
            expected[price, *np.minimum(capacity, problem.capacity[nearest].min(axis=0))] += 1
    held = bundled(problem, limits)
    assert held is not None
    assert expected
    assert expected <= Counter([(price, *size) for price, size in zip(held.prices, held.capacity, strict=True)])


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


def test_every_requirement_of_several_holds() -> None:
    """Otherwise, a launch satisfies one of its NodePool's minValues, and the API refuses it for the other."""
    problem = of_families(5)
    families, sizes = ([(str(row // steps % count),) for row in range(20)] for steps, count in ((1, 5), (5, 4)))
    wanted = [DistinctValues(families, 3), DistinctValues(sizes, 2)]
    for order in (wanted, wanted[::-1]):
        held = with_distinct_values(problem, order)
        assert len(held.prices)
        for capacity in held.capacity:
            fitting = np.flatnonzero((problem.capacity >= capacity).all(axis=1))
            assert all(len({one.values[row] for row in fitting}) >= one.values_min for one in order)
    unmet = DistinctValues([("only",)] * 20, 2)
    for order in ([wanted[0], unmet], [unmet, wanted[0]]):
        assert with_distinct_values(problem, order).capacity.tolist() == problem.capacity.tolist()


def test_a_requirement_that_cannot_be_met_changes_nothing() -> None:
    problem = of_every_size(5)
    wanted = DistinctValues([("only",)] * 5, 2)
    assert with_distinct_values(problem, [wanted]).capacity.tolist() == problem.capacity.tolist()
