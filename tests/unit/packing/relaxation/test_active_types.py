"""Which types the fluid program is solved over."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from core.packing.relaxation.active_types import InactiveTypes, first_types, joining_types
from core.packing.relaxation.preparation import prepared
from core.packing.relaxation.scaled_problem import ScaledProblem
from tests.unit.packing.problems import SETTINGS, SIZES, a_problem, of_every_size

ACTIVE = SETTINGS.active_types


def test_every_item_fits_a_first_type() -> None:
    """Otherwise, the first program has no solution."""
    may = [[True] * len(SIZES), [size == 5 for size in range(len(SIZES))]]
    scaled = ScaledProblem.of(a_problem([(1, 4), (1, 4)], [3, 5], allowed=may))
    chosen = first_types(scaled, replace(ACTIVE, initial_types=1))
    assert scaled.fits[:, chosen].any(axis=1).all()
    assert 5 in chosen


def test_items_without_value_add_no_type() -> None:
    """Beside pods that need a machine each, small ones have no dual price; otherwise, they add every type."""
    scaled = ScaledProblem.of(prepared(of_every_size(200, apart=60), SETTINGS).reduced)
    only_places = np.array([[0.0, 0.0, scaled.prices.min()]])
    inactive = InactiveTypes(scaled, ACTIVE)
    values = scaled.requests @ only_places[0]
    _, paid = inactive.resource_prices(item_values=values, known=only_places)
    assert (paid >= 1).all()


def test_resource_prices_are_scaled_to_the_price_of_a_type() -> None:
    scaled = ScaledProblem.of(a_problem([(1, 4)], [3]))
    known = np.array([[1.0, 0.5, 0.0]])
    prices, _ = InactiveTypes(scaled, ACTIVE).resource_prices(item_values=np.ones(1), known=known)
    assert np.allclose((scaled.capacity * prices).sum(axis=1), scaled.prices)


def test_types_are_added_where_items_pay_least_and_prices_differ() -> None:
    """Otherwise, a round adds ten almost equal types for the same reason."""
    prices = np.array([1.0, 1.05, 2.0, 4.0, 8.0])
    paid = np.array([0.5, 0.6, 0.7, 1.0, 0.8])
    found = joining_types(prices=prices, paid_shares=paid, active=np.array([4]), settings=ACTIVE)
    assert found.tolist() == [0, 2]
    one = replace(ACTIVE, added_types_max=1)
    assert joining_types(prices=prices, paid_shares=paid, active=np.array([4]), settings=one).tolist() == [0]
