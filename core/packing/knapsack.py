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


def _best_load(problem: Problem, demand: Ints, values: Floats, directions: Floats) -> Ints:
    """Greedy knapsacks for every direction and type at once; the load with the most value for its type's price.

    In floating point, which is exact here: amounts stay far below 2^53.
    """
    active = np.flatnonzero(demand > 0)
    used = np.flatnonzero(problem.requests[active].any(axis=0))
    requests = problem.requests[np.ix_(active, used)].astype(float)
    order = np.argsort(
        -(values[active] / np.maximum(requests @ directions[:, used].T, 1e-15).T), axis=1, kind="stable"
    ).T
    most = np.minimum(problem.fit[active], demand[active][:, None]).astype(float)
    left = np.broadcast_to(
        problem.room[:, used].astype(float), (len(directions), len(problem.prices), len(used))
    ).copy()
    taken = np.zeros((len(active), *left.shape[:2]))
    with np.errstate(divide="ignore", invalid="ignore"):
        for rank, chosen in enumerate(order):
            wanted = requests[chosen][:, None, :]
            amount = np.floor(np.minimum(most[chosen], np.fmin.reduce(left / wanted, axis=2)))
            left -= amount[:, :, None] * wanted
            taken[rank] = amount
    worth = np.einsum("rdt,rd->dt", taken, values[active][order])
    direction, kind = np.unravel_index(int(np.argmax(worth / problem.prices)), worth.shape)
    load = np.zeros(len(demand), dtype=np.int64)
    load[active[order[:, direction]]] = taken[:, direction, kind].astype(np.int64)
    return load
