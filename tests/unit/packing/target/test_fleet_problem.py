"""Similar pods are merged, so that the program stays small; their minimum bounds, their mean plans."""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.target.fleet_problem import NO_GROUP, FleetProblem, PodCells
from tests.unit.packing.target.fleets import a_fleet


def test_a_few_items_stay_separate() -> None:
    fleet = a_fleet([[1, 2]], free=[0], prices=[1], machines={4: 1})
    assert PodCells.of(fleet).cell.tolist() == [0, 1]


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
    finer = max(step for step in steps if len({key(one, step) for one in sizes}) <= DEFAULT_SETTINGS.target.cells_max)
    assert sorted(sorted(one) for one in known.values()) == sorted(
        sorted((size, extra) for size, extra in sizes if key([size, extra], finer) == one)
        for one in {key(size, finer) for size in sizes}
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
    found = fleet.hosts(np.array([0, 1]), np.array([2, 2]))
    assert found.tolist() == [[2, 1, 4], [3, 2, 0]]
    assert found.dtype == np.int64
    assert fleet.hosts(np.array([1]), np.array([2, 5])).tolist() == [[5, 5, 0]]
