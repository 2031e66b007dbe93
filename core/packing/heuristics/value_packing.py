"""Packing by value: again and again the machine and load that are worth most for their price."""

from __future__ import annotations

import numpy as np

from core.packing.problem import Floats, Ints, Packing, Problem, joined

DIRECTIONS = 8
"""How many ways of weighing resources against each other each machine is tried with."""


def pack_by_value(
    problem: Problem, demand: Ints, values: Floats, generator: np.random.Generator, noise: float = 0.0
) -> Packing:
    """Pack `demand` (pods by class) sequentially; a load that fits the demand several times is bought as often."""
    demand, parts = demand.copy(), list[Packing]()
    floor = values.max(initial=0.0) * 1e-9 + 1e-12
    while demand.any():
        tried = values * np.exp(generator.normal(0, noise, len(values))) if noise else values
        load = _best_load(problem, demand, np.maximum(tried, floor), _directions(problem, demand, generator))
        present = np.flatnonzero(load)
        times = int((demand[present] // load[present]).min())
        kind = problem.cheapest(load)
        parts.append(Packing(np.full(times, kind), np.tile(load, (times, 1))))
        demand -= times * load
    return joined(parts, len(demand))


def _directions(problem: Problem, demand: Ints, generator: np.random.Generator) -> Floats:
    """[direction, resource]: prices of resources, normalised by how much of each is asked for in all.

    From all weight on the first scarce one to all on the second, then at random.
    """
    total = (problem.requests * demand[:, None]).sum(axis=0).astype(float)
    scarce = np.flatnonzero(total > 0)
    weights = np.zeros((DIRECTIONS, len(total)))
    half = DIRECTIONS // 2
    for i in range(DIRECTIONS):
        if i < half and scarce.size >= 2:
            share = (i + 0.5) / half
            weights[i, scarce[2:]] = 0.03
            weights[i, scarce[0]], weights[i, scarce[1]] = share, 1 - share
        else:
            weights[i, scarce] = np.exp(generator.normal(0, 1.5, scarce.size))
    scaled: Floats = weights / np.maximum(total, 1.0)
    return scaled


def greedy_loads(problem: Problem, demand: Ints, most: Floats, ranks: Ints) -> Floats:
    """Greedy knapsacks, all at once: each takes of every class as many pods as still fit, in its own order.

    In floating point, which is exact here: amounts stay far below 2^53.

    Args:
        problem: What to pack and where.
        demand: [class], how many pods there are to take.
        most: [class, type], how many pods of a class a machine may get.
        ranks: [rank, knapsack, type], the order of classes; the last axis may be of length one: the same for all types.

    Returns:
        [rank, knapsack, type], how many pods of the class with that rank.
    """
    used = np.flatnonzero(problem.requests[demand > 0].any(axis=0))
    requests = problem.requests[:, used].astype(float)
    left = np.broadcast_to(problem.room[:, used].astype(float), (ranks.shape[1], *problem.room[:, used].shape)).copy()
    types = np.arange(len(problem.prices))
    taken = np.zeros((len(ranks), *left.shape[:2]))
    with np.errstate(divide="ignore", invalid="ignore"):
        for rank, chosen in enumerate(ranks):
            wanted = requests[chosen]
            amount = np.floor(np.minimum(most[chosen, types], np.fmin.reduce(left / wanted, axis=2)))
            left -= amount[:, :, None] * wanted
            taken[rank] = amount
    return taken


def _best_load(problem: Problem, demand: Ints, values: Floats, directions: Floats) -> Ints:
    """Greedy knapsacks for every direction and type; the load with the most value for its type's price."""
    active = np.flatnonzero(demand > 0)
    worth_of_room = np.maximum(problem.requests[active] @ directions.T, 1e-15)
    order = active[np.argsort(-(values[active] / worth_of_room.T), axis=1, kind="stable")].T
    most = np.minimum(problem.fit, demand[:, None]).astype(float)
    taken = greedy_loads(problem, demand, most, order[:, :, None])
    worth = np.einsum("rdt,rd->dt", taken, values[order])
    direction, kind = np.unravel_index(int(np.argmax(worth / problem.prices)), worth.shape)
    load = np.zeros(len(demand), dtype=np.int64)
    load[order[:, direction]] = taken[:, direction, kind].astype(np.int64)
    return load
