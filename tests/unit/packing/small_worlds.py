"""Random packing problems and fleets that are so small that every solution can be tried, and varied enough to reach each rule.

Prices and sizes are drawn so that optima are unique: a text of a solution then pins no choice of the solver among equals.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from core.packing.fleet_target import NO_GROUP, FleetProblem
from core.packing.problem import Bools, Ints, PackingProblem

CPU, MEMORY = 1000, 2**20
SIZES = (2, 4, 8, 16)


def a_small_problem(seed: int, *, most_pods: int = 7) -> PackingProblem:
    """Two to five items of together at most `most_pods` pods on three to eight types of three resources."""
    dice = np.random.default_rng(seed)
    items = int(dice.integers(2, 6))
    counts = 1 + dice.multinomial(most_pods - items, np.ones(items) / items)
    requests = np.stack([dice.integers(1, 38, items) * 100, dice.integers(0, 60, items) * 128, np.ones(items)], axis=1)
    capacity, prices = _types(dice, int(dice.integers(3, 9)))
    allowed = dice.random((items, len(prices))) < dice.choice((0.6, 0.9, 1.0))
    allowed[:, -1] = True
    caps = dice.choice((0, 0, 1, 2), items) if dice.random() < 0.4 else np.zeros(items, dtype=np.int64)
    return PackingProblem.of(
        requests=requests.astype(np.int64),
        counts=counts.astype(np.int64),
        capacity=capacity,
        prices=prices,
        allowed=allowed,
        pods_per_machine_max=caps,
    )


def a_wide_problem(seed: int) -> PackingProblem:
    """Eight to twelve items of 40 pods on ten to sixteen types: enough for each stage of the search to have work."""
    dice = np.random.default_rng(seed)
    items = int(dice.integers(8, 13))
    counts = 1 + dice.multinomial(40 - items, np.ones(items) / items)
    requests = np.stack([dice.integers(2, 35, items) * 100, dice.integers(2, 60, items) * 128, np.ones(items)], axis=1)
    capacity, prices = _types(dice, int(dice.integers(10, 17)))
    allowed = dice.random((items, len(prices))) < dice.choice((0.8, 1.0))
    allowed[:, -1] = True
    return PackingProblem.of(
        requests=requests.astype(np.int64),
        counts=counts.astype(np.int64),
        capacity=capacity,
        prices=prices,
        allowed=allowed,
    )


def _types(dice: np.random.Generator, number: int) -> tuple[Ints, Ints]:
    """Capacity and prices; the last type is the largest, so that every pod fits somewhere."""
    cpu = np.append(dice.choice(SIZES, number - 1), SIZES[-1])
    gib = cpu * np.append(dice.choice((2, 4, 8), number - 1), 8)
    places = dice.choice((3, 8, 29), number)
    capacity = np.stack([cpu * CPU - 80, gib * 1024 - 300, places], axis=1)
    prices = (cpu * 20_000_000 + gib * 3_000_000) * dice.uniform(0.8, 1.2, number)
    return capacity.astype(np.int64), prices.astype(np.int64)


@lru_cache(maxsize=256)
def optimum(seed: int) -> int:
    """The least cost of the small problem of a seed, by trying every partition of its pods into machines."""
    problem = a_small_problem(seed)
    pods = tuple(item for item, count in enumerate(problem.counts) for _ in range(count))
    return min(_costs(problem, pods))


def _costs(problem: PackingProblem, pods: tuple[int, ...]) -> Iterator[int]:
    for partition in _partitions(len(pods)):
        cost = 0
        for block in partition:
            load = np.bincount([pods[pod] for pod in block], minlength=len(problem.counts))
            fits = (load @ problem.requests <= problem.capacity).all(axis=1) & (load[:, None] <= problem.fit).all(
                axis=0
            )
            if not fits.any():
                break
            cost += int(problem.prices[fits].min())
        else:
            yield cost


def _partitions(size: int) -> Iterator[list[list[int]]]:
    if size == 0:
        yield []
        return
    for smaller in _partitions(size - 1):
        yield [*smaller, [size - 1]]
        for number, block in enumerate(smaller):
            yield [*smaller[:number], [*block, size - 1], *smaller[number + 1 :]]


def a_small_fleet(seed: int) -> FleetProblem:
    """Three to five nodes of two room groups with pods of two or three items; one node in six takes none."""
    dice = np.random.default_rng(seed)
    nodes, items, types = (int(dice.integers(low, high)) for low, high in ((3, 6), (2, 4), (2, 4)))
    loads = dice.integers(0, 3, (nodes, items))
    loads[0, :] = np.maximum(loads[0, :], 1)
    requests = np.stack([dice.integers(2, 9, items) * 100, dice.integers(1, 12, items) * 256], axis=1)
    free = np.stack([dice.integers(0, 20, nodes) * 100, dice.integers(0, 24, nodes) * 256], axis=1)
    sizes = np.array(SIZES[:types])
    groups = np.where(dice.random(nodes) < 1 / 6, NO_GROUP, dice.integers(0, 2, nodes))
    caps = dice.choice((0, 0, 1, 2), items) if dice.random() < 0.5 else np.zeros(items, dtype=np.int64)
    fits = dice.random((items, types)) < 0.9
    fits[:, -1] = True
    return FleetProblem(
        prices=dice.integers(60_000_000, 300_000_000, nodes),
        move_prices=loads.sum(axis=1) * int(dice.choice((0, 1_000_000, 9_000_000))),
        must_go=dice.random(nodes) < 0.15,
        is_spot=dice.random(nodes) < 0.3,
        loads=loads,
        free=free,
        room_groups=groups,
        requests=requests,
        host_caps=caps,
        required_host_caps=np.where(dice.random(items) < 0.7, caps, 0),
        host_room=dice.integers(0, 2, items) * (caps > 0),
        group_suits=dice.random((items, 2)) < 0.8,
        group_free=np.stack([dice.integers(0, 8, 2) * 100, dice.integers(0, 8, 2) * 256], axis=1),
        capacity=np.stack([sizes * 1000 - 80, sizes * 3000], axis=1),
        type_prices=(sizes * dice.uniform(30_000_000, 60_000_000, types)).astype(np.int64),
        fits=fits,
    )


def least_cost(fleet: FleetProblem) -> int:
    """The least cost of nodes that stay and new machines, if pods go to any number of places in turn and only room counts.

    Every choice of nodes that stay is tried, and for each every split of the other nodes' pods between the rooms and machines.
    """
    best = int(fleet.prices.sum())
    for kept in itertools.product((True, False), repeat=len(fleet.prices)):
        keeps = np.array(kept)
        rooms = [
            (fleet.free[n], int(fleet.room_groups[n]))
            for n in np.flatnonzero(keeps)
            if fleet.room_groups[n] != NO_GROUP
        ]
        rooms += [(free, group) for group, free in enumerate(fleet.group_free)]
        pods = tuple(item for item, count in enumerate(fleet.loads[~keeps].sum(axis=0)) for _ in range(int(count)))
        spare = best - int(fleet.prices[keeps].sum())
        best = min(
            best, int(fleet.prices[keeps].sum()) + _placed(fleet, pods, [(r.copy(), g) for r, g in rooms], [], spare)
        )
    return best


def _placed(
    fleet: FleetProblem, pods: tuple[int, ...], rooms: list[tuple[Ints, int]], new: list[tuple[Ints, int]], spare: int
) -> int:
    """The least cost of machines for these pods beside those that are bought; at least `spare` where none is cheaper."""
    if not pods:
        return 0
    item, rest, best = pods[0], pods[1:], spare
    request = fleet.requests[item]
    places = [free for free, group in rooms if fleet.group_suits[item, group]]
    places += [free for free, kind in new if fleet.fits[item, kind]]
    for place in places:
        if (request <= place).all():
            place[:] -= request
            best = min(best, _placed(fleet, rest, rooms, new, best))
            place[:] += request
    for kind in np.flatnonzero(fleet.fits[item]):
        price = int(fleet.type_prices[kind])
        if price < best and (request <= fleet.capacity[kind]).all():
            bought = [*new, (fleet.capacity[kind] - request, int(kind))]
            best = min(best, price + _placed(fleet, rest, rooms, bought, best - price))
    return best


def fits_whole(problem: PackingProblem) -> Bools:
    """[item, type], whether one pod fits, by its own sums."""
    fits: Bools = np.array(
        [[bool((request <= room).all()) for room in problem.capacity] for request in problem.requests], dtype=bool
    )
    return fits & problem.allowed
