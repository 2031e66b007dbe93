"""The bound undercuts every choice of nodes, and equals the best one if nothing is lost to rounding."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.target.fleet_bound import fleet_bound
from core.packing.target.fleet_problem import NO_GROUP, FleetProblem
from core.packing.target.keep_or_drain import TargetRules
from tests.unit.packing.small_worlds import a_small_fleet
from tests.unit.packing.target.fleets import DOLLAR, a_fleet
from tests.unit.packing.target.naive_program import least_objective


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


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_is_the_optimum_if_machines_and_pods_may_be_split(seed: int) -> None:
    """Strong duality: a value that is too low at any place proves less, one that is too high proves what is not true."""
    fleet = a_small_fleet(seed)
    free = {"move_prices": np.zeros_like(fleet.prices), "must_go": np.zeros_like(fleet.must_go)}
    least = least_objective(replace(fleet, **free, required_host_caps=fleet.host_caps), TargetRules(fill=1.0))
    assert least is not None
    for first in range(len(fleet.type_prices)):
        found = fleet_bound(replace(fleet, required_host_caps=fleet.host_caps), np.array([first]))
        assert least * DOLLAR * (1 - 1e-8) - 1 <= found <= least * DOLLAR
    only = replace(fleet, **free, host_caps=np.where(fleet.required_host_caps == fleet.host_caps, fleet.host_caps, 0))
    least = least_objective(only, TargetRules(fill=1.0))
    assert least is not None
    assert least * DOLLAR * (1 - 1e-8) - 1 <= fleet_bound(fleet, np.array([0])) <= least * DOLLAR


def test_fleets_without_pods_types_or_room_have_a_bound_too() -> None:
    """A fleet that is being emptied, one whose NodePools offer no type any more, and one whose nodes are all closed."""
    fleet = a_fleet([[2], [1]], free=[1, 0], prices=[3, 2], machines={4: 9})
    nothing = fleet_bound(a_fleet([[], []], free=[1, 0], prices=[3, 2], machines={4: 9}), np.array([0]))
    assert nothing == 0
    none = np.zeros((1, 0), dtype=np.int64)
    alone = replace(fleet, capacity=none.T, type_prices=none[0], fits=none > 0)
    assert fleet_bound(alone, none[0]) == pytest.approx(3 * DOLLAR, rel=1e-6), (
        "the second node's pod has room on the first"
    )
    closed = replace(fleet, room_groups=np.full(2, NO_GROUP), group_suits=none > 0, group_free=none.T)
    assert fleet_bound(replace(closed, capacity=none.T, type_prices=none[0], fits=none > 0), none[0]) == pytest.approx(
        5 * DOLLAR, rel=1e-6
    )
    assert fleet_bound(closed, np.array([0])) == pytest.approx(5 * DOLLAR, rel=1e-6)
