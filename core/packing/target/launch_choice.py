"""Chooses the machine types that the keep-or-drain program may buy: those that the relaxation buys, and the next best."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.packing.problem import Ints, PackingProblem
from core.packing.relaxation.fluid_lp import FluidSolution
from core.packing.search_settings import DEFAULT_SETTINGS

_SETTINGS: Final = DEFAULT_SETTINGS.target


def promising(problem: PackingProblem, fluid: FluidSolution) -> Ints:
    """Return the types that the relaxation buys, and for each set of types that admit the same pods the best ones.

    The best have the most value for their price, the lowest price, or the lowest price per unit of CPU or memory.
    """
    bought = np.flatnonzero(fluid.machines > 1e-6)
    # ratio[t] = max_i fit[i, t] · value[i] / price[t]: what a machine full of the best item is worth for its price.
    value_per_price = (problem.fit * fluid.item_values[:, None]).max(axis=0) / np.maximum(problem.prices, 1)
    near: list[Ints] = [bought]
    patterns, pattern = np.unique(problem.allowed.T, axis=0, return_inverse=True)
    for number in range(len(patterns)):
        same = np.flatnonzero(pattern.ravel() == number)
        near.append(same[np.argsort(-value_per_price[same], kind="stable")[: _SETTINGS.next_best_types]])
        near.append(same[np.argsort(problem.prices[same], kind="stable")[:1]])
        for resource in range(min(2, problem.capacity.shape[1])):
            unit_prices = problem.prices[same] / np.maximum(problem.capacity[same, resource], 1)
            near.append(same[np.argsort(unit_prices, kind="stable")[: _SETTINGS.cheapest_types]])
    return np.unique(np.concatenate(near)).astype(np.int64)
