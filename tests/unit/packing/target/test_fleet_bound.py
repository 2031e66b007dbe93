"""The bound undercuts every choice of nodes, and equals the best one if nothing is lost to rounding."""

from __future__ import annotations

import itertools

import numpy as np

from core.packing.target.fleet_bound import fleet_bound
from core.packing.target.fleet_problem import FleetProblem
from tests.unit.packing.target.fleets import DOLLAR, a_fleet


def cheapest(fleet: FleetProblem) -> int:
    """The lowest cost of any choice, by trying all; pods and machines are whole, and machines have one size."""
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


def test_the_bound_is_tight_if_machines_come_out_whole() -> None:
    fleet = a_fleet([[4], [4]], free=[0, 0], prices=[3, 3], machines={8: 1})
    assert fleet_bound(fleet, np.zeros(1, dtype=np.int64)) >= 0.999999 * DOLLAR


def test_types_are_added_that_were_not_in_the_first_program() -> None:
    fleet = a_fleet([[4], [4]], free=[0, 0], prices=[3, 3], machines={8: 2, 4: 0.25})
    assert fleet_bound(fleet, np.zeros(1, dtype=np.int64)) <= DOLLAR // 2


def test_pods_with_anti_affinity_need_hosts() -> None:
    """Three pods would fit on one machine of a dollar; separated, they need three nodes, and one node has room for one."""
    apart = {"host_caps": np.array([1]), "required_host_caps": np.array([1])}
    fleet = a_fleet([[1], [1], [1]], free=[9, 9, 9], prices=[5, 5, 5], machines={9: 1}, **apart)
    assert 2.999 * DOLLAR <= fleet_bound(fleet, np.zeros(1, dtype=np.int64)) <= 3 * DOLLAR
    large = a_fleet(
        [[1], [1], [1]], free=[9, 9, 9], prices=[5, 5, 5], machines={9: 1}, **apart, host_room=np.array([1])
    )
    assert 1.999 * DOLLAR <= fleet_bound(large, np.zeros(1, dtype=np.int64)) <= 2 * DOLLAR


def test_preferences_do_not_raise_the_bound() -> None:
    fleet = a_fleet([[1], [1]], free=[9, 9], prices=[5, 5], machines={9: 1}, host_caps=np.array([1]))
    assert fleet_bound(fleet, np.zeros(1, dtype=np.int64)) <= DOLLAR


def test_the_bound_holds_with_anti_affinity() -> None:
    draw = np.random.default_rng(11)
    for _ in range(60):
        nodes, cap = int(draw.integers(1, 6)), int(draw.integers(1, 3))
        fleet = a_fleet(
            draw.integers(0, cap + 1, (nodes, 1)).tolist(),
            free=draw.integers(0, 4, nodes).tolist(),
            prices=draw.integers(1, 9, nodes).tolist(),
            machines={6: int(draw.integers(1, 7))},
            host_caps=np.array([cap]),
            required_host_caps=np.array([cap]),
        )
        best = []
        for kept in itertools.product((False, True), repeat=nodes):
            keeps = np.array(kept)
            moved = int(fleet.loads[~keeps].sum())
            spare = np.minimum(fleet.free[keeps, 0], cap - fleet.loads[keeps, 0]).clip(0).sum()
            machines = max(0, -(-(moved - int(spare)) // min(6, cap)))
            best.append(int(fleet.prices[keeps].sum()) + machines * int(fleet.type_prices[0]))
        if fleet.counts.sum():
            assert fleet_bound(fleet, np.zeros(1, dtype=np.int64)) <= min(best)


def test_hosts_are_worth_fractions_of_a_dollar() -> None:
    """Prices of machines are cents an hour: a value cut to whole dollars would prove nothing."""
    apart = {"host_caps": np.array([1]), "required_host_caps": np.array([1])}
    fleet = a_fleet([[1], [1], [1]], free=[9, 9, 9], prices=[5, 5, 5], machines={9: 0.25}, **apart)
    assert 0.749 * DOLLAR <= fleet_bound(fleet, np.zeros(1, dtype=np.int64)) <= 0.75 * DOLLAR
