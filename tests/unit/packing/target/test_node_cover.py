"""Nodes are kept for pods without a place: the cheapest that hold them, and no more than their room makes necessary."""

from __future__ import annotations

import numpy as np
import pytest

from core.packing.problem import Ints
from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.target.fleet_problem import NO_GROUP, FleetProblem
from core.packing.target.node_cover import covering
from tests.unit.packing.target.fleets import a_fleet

MACHINES = {8: 1.0}


def kept(fleet: FleetProblem, missing: list[int], *, counts_room: bool = True, may: list[bool] | None = None) -> Ints:
    """The nodes that stay for these pods."""
    may_cover = np.ones(len(fleet.prices), dtype=bool) if may is None else np.array(may)
    cover = covering(fleet, np.array(missing), may_cover, counts_room=counts_room, settings=DEFAULT_SETTINGS.target)
    return np.flatnonzero(cover)


def test_the_node_with_the_most_missing_pods_per_price_stays() -> None:
    fleet = a_fleet([[2], [2], [1]], free=[0, 0, 0], prices=[1.0, 0.5, 0.9], machines=MACHINES)
    assert kept(fleet, [2]).tolist() == [1]
    assert kept(fleet, [3]).tolist() == [1, 2], "one more is missing, and a cheaper node than the first has it"
    assert kept(fleet, [9]).tolist() == [0, 1, 2]
    assert kept(fleet, [0]).tolist() == []


def test_a_cheap_node_with_one_pod_does_not_come_before_an_expensive_one_with_many() -> None:
    fleet = a_fleet([[1], [9]], free=[0, 0], prices=[0.001, 0.05], machines=MACHINES)
    assert kept(fleet, [9]).tolist() == [1]


def test_only_nodes_to_choose_from_stay() -> None:
    fleet = a_fleet([[2], [2]], free=[0, 0], prices=[1.0, 0.5], machines=MACHINES)
    assert kept(fleet, [2], may=[True, False]).tolist() == [0]


@pytest.mark.parametrize(("counts_room", "nodes"), [(True, [0]), (False, [0, 1, 2])])
def test_pods_that_fit_beside_those_of_a_kept_node_keep_no_other(counts_room: bool, nodes: list[int]) -> None:
    fleet = a_fleet([[2], [1], [1]], free=[2, 0, 0], prices=[0.5, 0.5, 0.5], machines=MACHINES)
    assert kept(fleet, [4], counts_room=counts_room).tolist() == nodes


def test_the_largest_pods_get_the_room() -> None:
    requests = np.array([[1], [1], [3]])
    fleet = a_fleet(
        [[4, 0, 0], [0, 1, 0], [0, 0, 1]], free=[3, 0, 0], prices=[0.1, 0.5, 0.5], machines=MACHINES, requests=requests
    )
    assert kept(fleet, [4, 1, 1]).tolist() == [0, 1]


@pytest.mark.parametrize(
    "changes",
    [
        {"group_suits": np.zeros((1, 1), dtype=bool)},
        {"room_groups": np.full(2, NO_GROUP)},
        {"host_caps": np.array([2])},
    ],
    ids=["unsuitable", "closed", "capped"],
)
def test_a_node_takes_only_what_may_run_there(changes: dict[str, Ints]) -> None:
    fleet = a_fleet([[2], [1]], free=[5, 0], prices=[0.5, 0.5], machines=MACHINES, **changes)
    assert kept(fleet, [3]).tolist() == [0, 1]


def test_a_cap_admits_as_many_as_are_left_of_it() -> None:
    fleet = a_fleet([[2], [1]], free=[5, 0], prices=[0.5, 0.5], machines=MACHINES, host_caps=np.array([3]))
    assert kept(fleet, [3]).tolist() == [0]


def test_a_node_with_more_requests_than_room_takes_none() -> None:
    fleet = a_fleet([[2], [1]], free=[-1, 0], prices=[0.5, 0.5], machines=MACHINES)
    assert kept(fleet, [3]).tolist() == [0, 1]
