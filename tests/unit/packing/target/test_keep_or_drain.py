"""The program on small examples: cheaper choices win, each move has a price, and gates and NodePool bounds hold."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.target.fleet_problem import FleetProblem, PodCells
from core.packing.target.fleet_target import FleetTarget, rounded
from core.packing.target.keep_or_drain import KeepOrDrain, TargetRules
from tests.unit.packing.small_worlds import a_small_fleet
from tests.unit.packing.target.fleets import DOLLAR, a_fleet
from tests.unit.packing.target.naive_program import least_objective, objective


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


@pytest.mark.parametrize("seed", range(30))
def test_it_costs_what_the_same_program_costs_pod_by_pod(seed: int) -> None:
    """Rows are written once more, without cells and scales, for each kind of rule; what must go can go in these fleets."""
    fleet = a_small_fleet(seed)
    pools = np.arange(len(fleet.prices)) % 2
    for rules in (
        TargetRules(fill=1.0),
        TargetRules(fill=0.8, is_gated=True),
        TargetRules(keep_discount=0.1, pools=pools, drains_max=np.array([2.0, 1.0])),
    ):
        free = replace(fleet, must_go=fleet.must_go & (np.arange(len(pools)) == 1) & (not rules.is_gated))
        for same in (free, with_cpu_alone(free)):
            least = least_objective(same, rules)
            assert least is not None
            assert objective(same, solved(same, rules), rules) == pytest.approx(least, rel=1e-9)


def with_cpu_alone(fleet: FleetProblem) -> FleetProblem:
    """The fleet with one resource, so that it has fewer resources than groups."""
    arrays = {name: getattr(fleet, name)[:, :1] for name in ("requests", "free", "capacity", "group_free")}
    return replace(fleet, **arrays)


@pytest.mark.parametrize("seed", range(20))
def test_a_node_that_must_go_stays_only_for_pods_that_nothing_else_holds(seed: int) -> None:
    """The program had no solution then, and what the solver ended with was taken for one: every node goes, at no cost."""
    fleet = a_small_fleet(seed)
    fleet = replace(fleet, must_go=np.arange(len(fleet.prices)) < 2, is_spot=np.arange(len(fleet.prices)) != 1)
    for rules in (TargetRules(fill=1.0), TargetRules(fill=1.0, is_gated=True)):
        may, must = least_objective(replace(fleet, must_go=fleet.must_go & False), rules), least_objective(fleet, rules)
        found = solved(fleet, rules)
        assert may is not None
        assert objective(fleet, found, rules) >= may - 1e-9
        assert (found.stay[fleet.must_go].max() > 1e-9) == (must is None)


def test_pods_that_nothing_else_holds_keep_their_node() -> None:
    nowhere = {"fits": np.zeros((1, 1), dtype=bool), "group_suits": np.zeros((1, 1), dtype=bool)}
    fleet = a_fleet([[2], [2]], free=[9, 9], prices=[1, 1], machines={4: 1}, must_go=np.array([True, False]), **nowhere)
    assert solved(fleet).stay.tolist() == [1, 1]
    assert solved(fleet).cost == pytest.approx(2)
    assert solved(fleet).cell_values.max() < 9, "in dollars, a few times what its nodes cost"


def test_the_other_nodes_that_must_go_go_at_any_price() -> None:
    """The first has a pod that nothing else holds; what the pods of the second need costs nine times as much as it does."""
    nowhere = {"fits": np.array([[False], [True]]), "group_suits": np.zeros((2, 1), dtype=bool)}
    fleet = a_fleet(
        [[1, 0], [0, 2]], free=[0, 0], prices=[9, 1], machines={2: 9}, must_go=np.ones(2, dtype=bool), **nowhere
    )
    assert solved(fleet).stay.tolist() == pytest.approx([1, 0])


def test_of_nodes_that_must_go_as_many_go_as_their_pool_allows() -> None:
    """A budget that lets one go now is no reason for all to go, or for none."""
    fleet = a_fleet(
        [[2], [2], [1]], free=[0, 0, 9], prices=[3, 2, 1], machines={4: 9}, must_go=np.array([True, True, False])
    )
    rules = TargetRules(fill=1.0, pools=np.zeros(3, dtype=np.int64), drains_max=np.array([1.0]))
    assert solved(fleet, rules).stay.tolist() == pytest.approx([0, 1, 1])
