"""The program on small examples: cheaper choices win, each move has a price, and gates and NodePool bounds hold."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.target.fleet_problem import FleetProblem, PodCells
from core.packing.target.fleet_target import FleetTarget, rounded
from core.packing.target.keep_or_drain import KeepOrDrain, TargetRules
from tests.unit.packing.target.fleets import DOLLAR, a_fleet


def solved(fleet: FleetProblem, rules: TargetRules | None = None) -> FleetTarget:
    cells = PodCells.of(fleet)
    types = np.arange(len(fleet.type_prices))
    return KeepOrDrain(fleet, cells, types, cells.mean_requests(fleet)).solve(rules or TargetRules(fill=1.0))


def test_pods_of_the_more_expensive_node_move_into_the_room_of_the_cheaper_one() -> None:
    found = solved(a_fleet([[2], [2]], free=[2, 2], prices=[3, 1], machines={4: 9}))
    assert rounded(found.stay).tolist() == [False, True]
    assert found.into.tolist() == [[pytest.approx(2)]]


def test_a_move_that_costs_more_than_it_saves_is_not_made() -> None:
    fleet = a_fleet([[2], [2]], free=[2, 2], prices=[3, 1], machines={4: 9})
    expensive = replace(fleet, move_prices=np.array([4 * DOLLAR, 4 * DOLLAR]))
    assert rounded(solved(expensive).stay).all()


def test_a_running_node_has_a_small_discount() -> None:
    """Prices fluctuate: a new machine that is cheaper by less than the discount is no reason to move."""
    fleet = a_fleet([[4]], free=[0], prices=[1.0], machines={4: 0.98})
    assert not rounded(solved(fleet).stay).any()
    assert rounded(solved(fleet, TargetRules(fill=1.0, keep_discount=0.04)).stay).all()


def test_a_node_that_must_go_goes_and_receives_nothing() -> None:
    fleet = a_fleet([[2], [2]], free=[2, 2], prices=[1, 1], machines={4: 9}, must_go=np.array([True, False]))
    assert rounded(solved(fleet).stay).tolist() == [False, True]


def test_pods_of_spot_nodes_get_no_new_machine_where_spot_is_gated() -> None:
    fleet = a_fleet([[4], [4]], free=[0, 0], prices=[3, 3], machines={8: 1}, is_spot=np.array([True, False]))
    assert not rounded(solved(fleet).stay).any()
    gated = solved(fleet, TargetRules(fill=1.0, is_gated=True))
    assert rounded(gated.stay).tolist() == [True, False]


def test_no_more_nodes_of_a_pool_go_than_allowed() -> None:
    fleet = a_fleet([[1], [1], [1]], free=[0, 0, 0], prices=[3, 2, 1], machines={3: 0.1})
    rules = TargetRules(fill=1.0, pools=np.array([0, 0, 0]), drains_max=np.array([1.0]))
    assert (1 - solved(fleet, rules).stay).sum() == pytest.approx(1, abs=1e-6)


def test_pods_that_need_a_host_each_keep_as_many_hosts() -> None:
    fleet = a_fleet([[1], [1], [1]], free=[9, 9, 9], prices=[1, 1, 1], machines={9: 5}, host_caps=np.array([1]))
    assert rounded(solved(fleet).stay).all()
