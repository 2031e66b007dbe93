"""Solves the pricing problem by greedy knapsacks: finds columns worth more than their price that the master problem lacks."""

from __future__ import annotations

import numpy as np

from core.packing.column_generation.columns import Columns
from core.packing.heuristics.value_packing import greedy_loads
from core.packing.problem import Floats, Ints, PackingProblem
from core.packing.search_settings import GreedyPricingSettings


def greedy_columns(
    problem: PackingProblem,
    demand: Ints,
    *,
    chosen_by: Floats,
    judged_by: Floats,
    resource_prices: Floats,
    value_per_price_min: float,
    generator: np.random.Generator,
    settings: GreedyPricingSettings,
) -> Columns:
    """Return columns of negative reduced cost that greedy knapsacks find, for each type and noise on its resource prices.

    Args:
        problem: The types of machine.
        demand: [item], pods to take from.
        chosen_by: [item], the values by which pods are chosen.
        judged_by: [item], the values by which columns are judged: the master problem's dual prices.
        resource_prices: [type, resource], shadow prices under `chosen_by`.
        value_per_price_min: Value over price that a column must exceed.
        generator: Draws the noise.
        settings: How much noise, and how many columns.
    """
    # Density rule: items by chosen_by[i] / (requests[i] · u[d, t]) for the resource prices u under noise d, the largest first.
    # Reduced cost = price - Σ_i load[i] judged_by[i] < 0 where value / price > 1.
    # cost: [active item, noise, type], order and taken: [rank, noise, type].
    active = np.flatnonzero((demand > 0) & (chosen_by > 0))
    noisy = _noisy(resource_prices, generator, settings)
    cost = np.einsum("ar,dtr->adt", problem.requests[active].astype(float), noisy)
    order = active[np.argsort(-(chosen_by[active, None, None] / np.maximum(cost, 1e-15)), axis=0, kind="stable")]
    pods_max = np.minimum(problem.fit, demand[:, None]).astype(float)
    taken = greedy_loads(problem, demand=demand, pods_max=pods_max, order=order)
    value_for_price = (taken * judged_by[order]).sum(axis=0) / problem.prices
    noise, types = np.nonzero(value_for_price > value_per_price_min)
    best = np.argsort(-value_for_price[noise, types], kind="stable")[: settings.columns_max]
    loads = np.zeros((len(best), len(demand)), dtype=np.int64)
    for i, (d, t) in enumerate(zip(noise[best], types[best], strict=True)):
        loads[i, order[:, d, t]] = taken[:, d, t]
    return Columns(types[best], loads)


def _noisy(resource_prices: Floats, generator: np.random.Generator, settings: GreedyPricingSettings) -> Floats:
    """[noise, type, resource], resource prices times e^noise; prices of zero are lifted a little, so that they order items."""
    deviations = np.array(settings.price_noises_log)[:, None, None]
    noise = generator.normal(0, 1, (len(deviations), *resource_prices.shape)) * deviations
    noisy: Floats = np.maximum(resource_prices, resource_prices.max() * 1e-12) * np.exp(noise)
    return noisy
