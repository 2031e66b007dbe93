"""Solves the pricing problem by greedy knapsacks: finds columns worth more than their price that the master problem lacks."""

from __future__ import annotations

import numpy as np

from core.packing.column_generation.columns import Columns
from core.packing.heuristics.value_packing import greedy_loads
from core.packing.problem import Floats, Ints, PackingProblem
from core.packing.size_settings import GreedyPricingSettings


def knapsack_loads(
    filled: PackingProblem,
    demand: Ints,
    *,
    chosen_by: Floats,
    resource_prices: Floats,
    generator: np.random.Generator,
    settings: GreedyPricingSettings,
) -> Ints:
    """Return [load, item], the loads of greedy knapsacks, one for each type and noise on its resource prices.

    Args:
        filled: The pods, and the types that knapsacks fill.
        demand: [item], pods to take from.
        chosen_by: [item], the values by which pods are chosen.
        resource_prices: [type, resource], shadow prices under `chosen_by`.
        generator: Draws the noise.
        settings: How much noise.
    """
    # Density rule: items by chosen_by[i] / (requests[i] · u[d, t]) for the resource prices u under noise d, the largest first.
    # cost: [active item, noise, type], order and taken: [rank, noise, type], by_item: [item, noise, type].
    active = np.flatnonzero((demand > 0) & (chosen_by > 0))
    noisy = _noisy(resource_prices, generator, settings)
    cost = np.einsum("ar,dtr->adt", filled.requests[active].astype(float), noisy)
    order = active[np.argsort(-(chosen_by[active, None, None] / np.maximum(cost, 1e-15)), axis=0, kind="stable")]
    pods_max = np.minimum(filled.fit, demand[:, None]).astype(float)
    taken = greedy_loads(filled, demand=demand, pods_max=pods_max, order=order)
    by_item = np.zeros((len(demand), *taken.shape[1:]), dtype=np.int64)
    np.put_along_axis(by_item, order, taken.astype(np.int64), axis=0)
    loads: Ints = by_item.reshape(len(demand), -1).T
    return loads


def best_columns(
    problem: PackingProblem, loads: Ints, *, judged_by: Floats, value_per_price_min: float, columns_max: int
) -> Columns:
    """Return columns of negative reduced cost with these loads, each on the cheapest type that holds it.

    That may be another type than the one for which a load was found, if it leaves room there.

    Args:
        problem: The pods and all types of machine.
        loads: [load, item].
        judged_by: [item], the master problem's dual prices.
        value_per_price_min: Value over price that a column must exceed.
        columns_max: How many columns, the best first.
    """
    # Reduced cost = price - Σ_i load[i] judged_by[i] < 0 where value / price > 1.
    found = Columns.of_loads(problem, loads)
    value_for_price = (found.loads @ judged_by) / problem.prices[found.types]
    ranked = np.argsort(-value_for_price, kind="stable")[:columns_max]
    best = ranked[value_for_price[ranked] > value_per_price_min]
    return Columns(found.types[best], found.loads[best])


def _noisy(resource_prices: Floats, generator: np.random.Generator, settings: GreedyPricingSettings) -> Floats:
    """[noise, type, resource], resource prices times e^noise; prices of zero are lifted a little, so that they order items."""
    deviations = np.array(settings.price_noises_log)[:, None, None]
    noise = generator.normal(0, 1, (len(deviations), *resource_prices.shape)) * deviations
    noisy: Floats = np.maximum(resource_prices, resource_prices.max() * 1e-12) * np.exp(noise)
    return noisy
