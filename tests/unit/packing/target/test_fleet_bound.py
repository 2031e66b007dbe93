"""The bound undercuts every choice of nodes, and meets the best where nothing is lost to rounding."""

from __future__ import annotations

import itertools

import numpy as np

from core.packing.target.fleet_bound import fleet_bound
from core.packing.target.fleet_problem import FleetProblem
from tests.unit.packing.target.fleets import DOLLAR, a_fleet


def cheapest(fleet: FleetProblem) -> int:
    """The least that any choice costs, by trying all of them; pods and machines are whole, one size of machine."""
    best = []
    for kept in itertools.product((False, True), repeat=len(fleet.prices)):
        keeps = np.array(kept)
        left = int(fleet.loads[~keeps].sum() - fleet.free[keeps].sum() - fleet.group_free.sum())
        machines = max(0, -(-left // int(fleet.capacity[0, 0])))
        best.append(int(fleet.prices[keeps].sum()) + machines * int(fleet.type_prices[0]))
    return min(best)


def test_the_bound_holds_for_every_choice() -> None:
    draw = np.random.default_rng(7)
    for _ in range(60):
        nodes = int(draw.integers(1, 6))
        fleet = a_fleet(
            draw.integers(0, 5, (nodes, 2)).tolist(),
            free=draw.integers(0, 4, nodes).tolist(),
            prices=draw.integers(1, 9, nodes).tolist(),
            machines={int(draw.integers(1, 7)): int(draw.integers(1, 7))},
            group_free=np.array([[int(draw.integers(0, 4))]]),
        )
        if fleet.counts.sum():
            assert fleet_bound(fleet, np.zeros(1, dtype=np.int64)) <= cheapest(fleet)


def test_the_bound_is_met_where_machines_come_out_whole() -> None:
    fleet = a_fleet([[4], [4]], free=[0, 0], prices=[3, 3], machines={8: 1})
    assert fleet_bound(fleet, np.zeros(1, dtype=np.int64)) >= 0.999999 * DOLLAR


def test_types_join_that_were_not_asked_about_at_first() -> None:
    fleet = a_fleet([[4], [4]], free=[0, 0], prices=[3, 3], machines={8: 2, 4: 0.25})
    assert fleet_bound(fleet, np.zeros(1, dtype=np.int64)) <= DOLLAR // 2
