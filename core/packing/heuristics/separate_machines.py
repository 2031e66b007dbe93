"""A separate machine for each pod: an upper bound that other packings should beat."""

from __future__ import annotations

import numpy as np

from core.packing.problem import Ints, Packing, PackingProblem


def separate_cost(problem: PackingProblem) -> int:
    """Return the nano-dollars per hour of the cheapest machine for each pod alone."""
    prices = problem.prices[_cheapest_types(problem)]
    return int(prices @ problem.counts)


def separate_packing(problem: PackingProblem) -> Packing:
    """Return each pod alone on the cheapest machine that holds it."""
    item = np.repeat(np.arange(len(problem.counts)), problem.counts)
    loads = np.zeros((len(item), len(problem.counts)), dtype=np.int64)
    loads[np.arange(len(item)), item] = 1
    return Packing(_cheapest_types(problem)[item], loads)


def _cheapest_types(problem: PackingProblem) -> Ints:
    """[item], the cheapest type that holds one pod of it, ties to the lower index."""
    prices = np.where(problem.fit > 0, problem.prices[None, :], np.iinfo(np.int64).max)
    types: Ints = prices.argmin(axis=1)
    return types
