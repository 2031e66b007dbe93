"""The bound undercuts every choice of nodes, and equals the best one if nothing is lost to rounding."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from msgspec.structs import replace

from core.packing.fleet_target import (
    NO_GROUP,
    FleetProblem,
    FleetTarget,
    KeepOrDrain,
    PodCells,
    Rooms,
    SlotFilling,
    TargetRules,
    covering,
    fleet_bound,
    free_room_worth,
    promising,
    rounded,
    whole_pods,
)
from core.packing.problem import Ints, PackingProblem
from core.packing.relaxation import relax
from core.packing.settings import DEFAULT_SETTINGS
from tests.unit.packing.small_worlds import a_small_fleet
from tests.unit.packing.target.fleets import DOLLAR, a_fleet
from tests.unit.packing.target.naive_program import least_objective, objective


def cheapest(fleet: FleetProblem) -> int:
    """The lowest cost of any choice, by trying all; pods and machines are whole, and machines have one size."""
    best = []
    for kept in itertools.product((False, True), repeat=len(fleet.prices)):
        keeps = np.array(kept)
        left = int(fleet.loads[~keeps].sum() - fleet.free[keeps].sum() - fleet.group_free.sum())
        machines = max(0, -(-left // int(fleet.capacity[0, 0])))
        best.append(int(fleet.prices[keeps].sum()) + machines * int(fleet.type_prices[0]))
    return min(best)


@pytest.mark.parametrize("seed", range(30))
def test_the_bound_is_the_optimum_if_machines_and_pods_may_be_split(seed: int) -> None:
    """Strong duality: a value that is too low at any place proves less, one that is too high proves what is not true."""
    fleet = a_small_fleet(seed)
    free = {"move_prices": np.zeros_like(fleet.prices), "must_go": np.zeros_like(fleet.must_go)}
    least = least_objective(replace(fleet, **free, required_host_caps=fleet.host_caps), TargetRules(fill=1.0))
    assert least is not None
    for first in range(len(fleet.type_prices)):
        bound = fleet_bound(replace(fleet, required_host_caps=fleet.host_caps), np.array([first]))
        assert least * DOLLAR * (1 - 1e-8) - 1 <= bound <= least * DOLLAR
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


# Similar pods are merged, so that the program stays small; their minimum bounds, their mean plans.


def test_many_items_are_merged_by_size_and_never_across_places() -> None:
    items = 4 * DEFAULT_SETTINGS.target.cells_max
    requests = np.arange(1, items + 1, dtype=np.int64)[:, None]
    fits = (np.arange(items) % 2 == 0)[:, None]
    fleet = a_fleet([[1] * items], free=[0], prices=[1], machines={10**6: 1}, requests=requests, fits=fits)
    cells = PodCells.of(fleet)
    assert len(cells.members) <= DEFAULT_SETTINGS.target.cells_max
    for members in cells.members:
        assert len(set(fits[members > 0, 0].tolist())) == 1
    least, mean = cells.least_requests(fleet), cells.mean_requests(fleet)
    assert (least <= mean).all()
    assert (least[cells.cell] <= requests).all()


def of_sizes(sizes: list[list[int]]) -> FleetProblem:
    """A pod of each size on one node."""
    fleet = a_fleet([[1] * len(sizes)], free=[0], prices=[1], machines={10**6: 1})
    requests = np.array(sizes, dtype=np.int64)
    return replace(fleet, requests=requests, free=np.zeros((1, requests.shape[1]), dtype=np.int64))


def test_items_are_merged_only_if_there_are_more_than_a_program_may_distinguish() -> None:
    most = DEFAULT_SETTINGS.target.cells_max
    assert PodCells.of(of_sizes([[7]] * most)).cell.tolist() == list(range(most))
    assert PodCells.of(of_sizes([[7]] * (most + 1))).cell.tolist() == [0] * (most + 1)


def test_pods_of_a_cell_differ_by_less_than_the_finest_step_that_makes_few_enough() -> None:
    """A pod that requests nothing of a resource is like none that does, not even one that requests a single unit."""
    steps = DEFAULT_SETTINGS.target.size_steps_per_doubling
    sizes = [[100 * number, extra] for number in range(1, 81) for extra in (0, 1, 2, 3)]
    cells = PodCells.of(of_sizes(sizes))
    known = {}
    for (size, extra), cell in zip(sizes, cells.cell.tolist(), strict=True):
        known.setdefault(cell, []).append((size, extra))
    assert len(known) == len(cells.members) <= DEFAULT_SETTINGS.target.cells_max
    finer = max(step for step in steps if len({key(size, step) for size in sizes}) <= DEFAULT_SETTINGS.target.cells_max)
    assert sorted(sorted(cell_sizes) for cell_sizes in known.values()) == sorted(
        sorted((size, extra) for size, extra in sizes if key([size, extra], finer) == cell_sizes)
        for cell_sizes in {key(size, finer) for size in sizes}
    )


def key(size: list[int], steps: float) -> tuple[int | None, ...]:
    """What is equal for sizes that share a cell."""
    return tuple(math.floor(steps * math.log2(amount)) if amount else None for amount in size)


def test_a_fleet_without_pods_has_no_cells() -> None:
    fleet = a_fleet([[], []], free=[0, 0], prices=[1, 1], machines={4: 1})
    assert PodCells.of(fleet).members.shape == (0, 0)
    assert PodCells.of(fleet).cell.tolist() == []


def test_amounts_are_counted_in_the_mean_room_of_a_node_or_machine() -> None:
    """Without any, and where all have next to none, in units: nothing may be divided by zero."""
    fleet = a_fleet([[1], [1]], free=[3, -5], prices=[1, 1], machines={4: 1, 9: 2})
    assert fleet.scale.tolist() == [(3 + 0 + 4 + 9) / 4]
    none = np.zeros((0, 1), dtype=np.int64)
    alone = replace(fleet, capacity=none, type_prices=none[:, 0], fits=np.zeros((1, 0), dtype=bool))
    assert alone.scale.tolist() == [1.5]
    assert replace(alone, free=np.array([[-5], [-1]])).scale.tolist() == [1]
    assert replace(alone, free=none, prices=none[:, 0]).scale.tolist() == [1]


def test_a_node_hosts_its_own_pods_and_up_to_the_cap_where_it_takes_more() -> None:
    fleet = a_fleet([[0, 3], [1, 0], [4, 0]], free=[9, 9, 9], prices=[1, 1, 1], machines={4: 1})
    fleet = replace(fleet, room_groups=np.array([0, 1, NO_GROUP]), group_suits=np.array([[True, False], [True, True]]))
    hosted = fleet.hosts(np.array([0, 1]), np.array([2, 2]))
    assert hosted.tolist() == [[2, 1, 4], [3, 2, 0]]
    assert hosted.dtype == np.int64
    assert fleet.hosts(np.array([1]), np.array([2, 5])).tolist() == [[5, 5, 0]]


# What a solution of the keep-or-drain program says of each node.


@pytest.mark.parametrize(("share", "stays"), [(0.0, False), (0.49, False), (0.5, True), (1.0, True)])
def test_a_node_stays_if_at_least_half_of_it_does(share: float, stays: bool) -> None:
    assert rounded(np.array([share])).tolist() == [stays]


def test_free_room_is_worth_what_its_group_pays_and_nothing_where_no_pod_may_use_it() -> None:
    fleet = a_fleet(
        [[2], [2], [2]], free=[2, 1, 3], prices=[1, 1, 1], machines={4: 9}, room_groups=np.array([0, NO_GROUP, 0])
    )
    worth = free_room_worth(fleet, np.full(fleet.group_free.shape, 0.5))
    assert worth.tolist() == pytest.approx((np.array([2, 0, 3]) * 0.5 / fleet.scale[0]).tolist())


# The program on small examples: cheaper choices win, each move has a price, and gates and NodePool bounds hold.


def solved(fleet: FleetProblem, rules: TargetRules | None = None) -> FleetTarget:
    cells = PodCells.of(fleet)
    types = np.arange(len(fleet.type_prices))
    return KeepOrDrain(fleet, cells, types, cells.mean_requests(fleet)).solve(rules or TargetRules(fill=1.0))


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
        target = solved(fleet, rules)
        assert may is not None
        assert objective(fleet, target, rules) >= may - 1e-9
        assert (target.stay[fleet.must_go].max() > 1e-9) == (must is None)


def test_pods_that_nothing_else_holds_keep_their_node() -> None:
    nowhere = {"fits": np.zeros((1, 1), dtype=bool), "group_suits": np.zeros((1, 1), dtype=bool)}
    fleet = a_fleet([[2], [2]], free=[9, 9], prices=[1, 1], machines={4: 1}, must_go=np.array([True, False]), **nowhere)
    assert solved(fleet).stay.tolist() == [1, 1]
    assert solved(fleet).cost == pytest.approx(2)
    assert solved(fleet).cell_values.max() < 9, "in dollars, a few times what its nodes cost"


def test_of_nodes_that_must_go_as_many_go_as_their_pool_allows() -> None:
    """A budget that lets one go now is no reason for all to go, or for none."""
    fleet = a_fleet(
        [[2], [2], [1]], free=[0, 0, 9], prices=[3, 2, 1], machines={4: 9}, must_go=np.array([True, True, False])
    )
    rules = TargetRules(fill=1.0, pools=np.zeros(3, dtype=np.int64), drains_max=np.array([1.0]))
    assert solved(fleet, rules).stay.tolist() == pytest.approx([0, 1, 1])


# The program is solved over promising types, not over the whole catalogue.


def test_the_types_of_the_relaxation_are_few() -> None:
    sizes = np.arange(1, 101)
    problem = PackingProblem.of(
        requests=np.array([[1, 1]]),
        counts=np.array([500]),
        capacity=np.column_stack([sizes * 4, sizes * 4]),
        prices=sizes * 100 + np.where(sizes == 37, -5, 0),
        allowed=np.ones((1, 100), dtype=bool),
    )
    fluid = relax(problem, DEFAULT_SETTINGS)
    chosen = promising(problem, fluid)
    assert set(np.flatnonzero(fluid.machines > 1e-6)) <= set(chosen)
    assert len(chosen) <= DEFAULT_SETTINGS.target.next_best_types + 2 * DEFAULT_SETTINGS.target.cheapest_types + 3


# Nodes are kept for pods without a place: the cheapest that hold them, and no more than their room makes necessary.


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


# Pods go where the free room has their shape, and fractions become whole pods without a loss.


NONE = np.zeros(1, dtype=np.int64)


def test_rounding_carries_the_remainder_over() -> None:
    """Ten items with three tenths of a pod each give three pods, not none."""
    into = np.full((10, 1), 0.3)
    assert whole_pods(into, np.ones(10, dtype=np.int64)).sum() == 3


def test_no_item_gets_more_places_than_it_has_pods() -> None:
    into = np.array([[0.6, 0.6], [0.9, 0.9]])
    assert (whole_pods(into, np.array([1, 2])).sum(axis=1) <= [1, 2]).all()


def test_a_pod_goes_to_room_of_its_shape() -> None:
    fleet = a_fleet([[1]], free=[0], prices=[1], machines={4: 1})
    wide = replace(fleet, requests=np.array([[1, 4]]), free=np.array([[0, 0]]), capacity=np.array([[4, 4]]))
    free = np.array([[8, 4], [1, 5]])
    rooms = Rooms(free, np.zeros(2, dtype=np.int64), np.ones((1, 2), dtype=bool), ({},))
    (slot,) = SlotFilling(wide, rooms, np.array([1]), NONE).slots(np.array([[1.0]]), 0)
    assert (slot.node, slot.pods) == (1, 1)


def test_a_host_takes_one_pod_of_an_anti_affinity_group() -> None:
    fleet = a_fleet([[2]], free=[0], prices=[1], machines={4: 1}, host_caps=np.array([1]))
    rooms = Rooms(np.array([[9], [9], [9]]), np.zeros(3, dtype=np.int64), np.ones((1, 3), dtype=bool), ({0: 1},))
    slots = SlotFilling(fleet, rooms, np.array([3]), NONE).slots(np.array([[3.0]]), 0)
    assert sorted((slot.node, slot.pods) for slot in slots) == [(1, 1), (2, 1)]


def test_an_item_without_an_alternative_comes_first() -> None:
    """There is room for one large pod: the small item, whose pod may go nowhere else, gets it."""
    fleet = replace(a_fleet([[1, 1]], free=[0], prices=[1], machines={9: 1}), requests=np.array([[3], [2]]))
    rooms = Rooms(np.array([[3]]), np.zeros(1, dtype=np.int64), np.ones((2, 1), dtype=bool), ({}, {}))
    into = np.array([[1.0], [1.0]])
    (slot,) = SlotFilling(fleet, rooms, np.array([1, 1]), np.array([0, 1])).slots(into, 0)
    assert (slot.item, slot.pods) == (1, 1)
    (slot,) = SlotFilling(fleet, rooms, np.array([1, 1]), np.array([0, 0])).slots(into, 0)
    assert (slot.item, slot.pods) == (0, 1)


def test_an_item_without_an_alternative_takes_only_suitable_nodes_that_take_pods() -> None:
    """Not a node that its pods may not run on, nor one that takes no pods, however much room they have."""
    fleet = a_fleet([[2]], free=[0], prices=[1], machines={9: 1})
    groups, suits = np.array([0, NO_GROUP, 0]), np.array([[False, True, True]])
    rooms = Rooms(np.array([[9], [9], [1]]), groups, suits, ({},))
    slots = SlotFilling(fleet, rooms, np.array([2]), np.array([2])).slots(np.zeros((1, 1)), 1)
    assert [(slot.node, slot.pods) for slot in slots] == [(2, 1)]


def test_what_shares_leave_over_takes_only_suitable_nodes_that_take_pods() -> None:
    fleet = a_fleet([[2]], free=[0], prices=[1], machines={9: 1})
    groups, suits = np.array([0, NO_GROUP, 0]), np.array([[False, True, True]])
    rooms = Rooms(np.array([[9], [9], [1]]), groups, suits, ({},))
    slots = SlotFilling(fleet, rooms, np.array([2]), NONE).slots(np.zeros((1, 1)), 1)
    assert [(slot.node, slot.pods) for slot in slots] == [(2, 1)]


def test_a_host_that_is_unsuitable_or_takes_no_pods_takes_none_of_an_anti_affinity_group() -> None:
    fleet = a_fleet([[3]], free=[0], prices=[1], machines={9: 1}, host_caps=np.array([1]))
    groups, suits = np.array([0, NO_GROUP, 0]), np.array([[False, True, True]])
    rooms = Rooms(np.array([[9], [9], [9]]), groups, suits, ({},))
    slots = SlotFilling(fleet, rooms, np.array([3]), NONE).slots(np.array([[3.0]]), 0)
    assert [(slot.node, slot.pods) for slot in slots] == [(2, 1)]


def test_new_hosts_take_the_anti_affinity_pods_that_they_can() -> None:
    """Two of three pods go to two new machines: only one needs a slot."""
    fleet = a_fleet([[3]], free=[0], prices=[1], machines={9: 1}, host_caps=np.array([1]))
    rooms = Rooms(np.array([[9], [9], [9]]), np.zeros(3, dtype=np.int64), np.ones((1, 3), dtype=bool), ({},))
    assert len(SlotFilling(fleet, rooms, np.array([3]), NONE).slots(np.zeros((1, 1)), 2)) == 1
