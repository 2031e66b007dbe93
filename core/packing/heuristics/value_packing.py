"""Packs by value: repeatedly buys the machine and load with the most value for the price."""

from __future__ import annotations

import numpy as np

from core.packing.problem import Floats, Ints, Packing, PackingProblem, joined
from core.packing.search_settings import ValuePackingSettings


def pack_by_value(
    problem: PackingProblem,
    *,
    demand: Ints,
    item_values: Floats,
    generator: np.random.Generator,
    settings: ValuePackingSettings,
    noise_log: float = 0.0,
) -> Packing:
    """Pack `demand` ([item], pods) machine by machine; a load that the demand fills several times is bought that often.

    Args:
        problem: The types of machine.
        demand: [item], pods to pack.
        item_values: [item], what a pod is worth.
        generator: Draws the noise and some of the directions.
        settings: How many directions.
        noise_log: Deviation of the noise on the logarithm of values, drawn for each load.
    """
    demand, parts = demand.copy(), list[Packing]()
    floor = item_values.max(initial=0.0) * 1e-9 + 1e-12  # a pod without value must be packed, too
    while demand.any():
        noise = np.exp(generator.normal(0, noise_log, len(item_values))) if noise_log else 1.0
        values = np.maximum(item_values * noise, floor)
        directions = _directions(problem, demand, generator, settings)
        load = _best_load(problem, demand, item_values=values, directions=directions)
        present = np.flatnonzero(load)
        times = int((demand[present] // load[present]).min())
        parts.append(Packing(np.full(times, problem.cheapest_type(load)), np.tile(load, (times, 1))))
        demand -= times * load
    return joined(parts, items=len(demand))


def greedy_loads(problem: PackingProblem, *, demand: Ints, pods_max: Floats, order: Ints) -> Floats:
    """Greedy knapsacks, all at once: each takes as many pods of every item as still fit, in its own order.

    In floating point, which is exact here: amounts stay far below 2^53.

    Args:
        problem: The types of machine.
        demand: [item], pods to pack.
        pods_max: [item, type], how many pods of an item a machine may get.
        order: [rank, knapsack, type], items in order; the last axis may be of length one: the same for all types.

    Returns:
        [rank, knapsack, type], how many pods of the item with that rank.
    """
    # For every rank: amount = min(pods_max, ⌊min_r left[r] / requests[r]⌋), then left -= amount · requests. Where nothing is
    # requested, 0 / 0 = nan and x / 0 = inf; fmin passes over nan, so such resources do not bind.
    # left, wanted: [resource, knapsack, type] (wanted broadcast along types); amount, at first pods_max: [knapsack, type].
    requested = np.flatnonzero(problem.requests[demand > 0].any(axis=0))
    requests = problem.requests[:, requested].T.astype(float)
    capacity = problem.capacity[:, requested].T.astype(float)
    left = np.repeat(capacity[:, None, :], order.shape[1], axis=1)
    taken = pods_max.take(order * len(problem.prices) + np.arange(len(problem.prices)))
    used = np.empty_like(left)
    with np.errstate(divide="ignore", invalid="ignore"):
        for amount, chosen in zip(taken, order, strict=True):
            wanted = requests.take(chosen, axis=1)
            room = np.fmin.reduce(np.divide(left, wanted, out=used), axis=0, initial=np.inf)
            np.floor(np.minimum(amount, room, out=amount), out=amount)
            np.subtract(left, np.multiply(amount, wanted, out=used), out=left)
    return taken


def _directions(
    problem: PackingProblem, demand: Ints, generator: np.random.Generator, settings: ValuePackingSettings
) -> Floats:
    """[direction, resource]: weights of the resources, divided by the total request of each.

    In the first half of the directions, the weight moves from the second requested resource to the first; in the second half,
    weights are random.
    """
    # direction[d, r] = weight[d, r] / Σ_i requests[i, r] demand[i], so that a weight of one counts all that is requested of a
    # resource as one. The first half of the weights is (s, 1 - s) with s = (d + ½) / half; the others are log-normal.
    total = (problem.requests * demand[:, None]).sum(axis=0).astype(float)
    requested = np.flatnonzero(total > 0)
    weights = np.zeros((settings.directions, len(total)))
    half = settings.directions // 2
    for i in range(settings.directions):
        if i < half and requested.size >= 2:
            share = (i + 0.5) / half
            weights[i, requested[2:]] = settings.minor_resource_weight
            weights[i, requested[0]], weights[i, requested[1]] = share, 1 - share
        else:
            weights[i, requested] = np.exp(generator.normal(0, settings.weight_deviation_log, requested.size))
    scaled: Floats = weights / np.maximum(total, 1.0)
    return scaled


def _best_load(problem: PackingProblem, demand: Ints, *, item_values: Floats, directions: Floats) -> Ints:
    """Return [item], the greedy knapsack with the most value for its type's price, over all directions and types."""
    # Density rule: for direction d, items come by item_values[i] / (requests[i] · d), the largest first. Then
    # value[d, t] = Σ_i taken[i, d, t] item_values[i], and the load with the largest value[d, t] / price[t] wins.
    # order: [rank, direction], taken: [rank, direction, type].
    active = np.flatnonzero(demand > 0)
    weighed = np.maximum(problem.requests[active] @ directions.T, 1e-15)
    order = active[np.argsort(-(item_values[active] / weighed.T), axis=1, kind="stable")].T
    pods_max = np.minimum(problem.fit, demand[:, None]).astype(float)
    taken = greedy_loads(problem, demand=demand, pods_max=pods_max, order=order[:, :, None])
    value = np.einsum("rdt,rd->dt", taken, item_values[order])
    direction, best_type = np.unravel_index(int(np.argmax(value / problem.prices)), value.shape)
    load = np.zeros(len(demand), dtype=np.int64)
    load[order[:, direction]] = taken[:, direction, best_type].astype(np.int64)
    return load
