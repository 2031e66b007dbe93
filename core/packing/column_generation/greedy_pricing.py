"""Loads that are worth more than the machine that they are on: what the master program is missing."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.packing.column_generation.beam_pricing import WORTH_MIN
from core.packing.heuristics.value_packing import greedy_loads
from core.packing.problem import Floats, Ints, Packing, Problem

SHAKES: Final = (0.0, 0.15, 0.3)
"""By how much rents are shaken, one knapsack for each type and shake."""

LOADS_MAX: Final = 80
"""Most loads of one round, the best first: more make the master program slow and are worth little."""


def worthwhile_loads(
    problem: Problem, demand: Ints, tried: Floats, values: Floats, rents: Floats, generator: np.random.Generator
) -> Packing:
    """Loads that greedy knapsacks find for each type.

    Args:
        problem: What to pack and where.
        demand: [class], how many pods there are to take.
        tried: [class], the values by which pods are chosen.
        values: [class], those by which the loads are judged.
        rents: [type, resource], what room is worth under `tried`.
        generator: Shakes the rents.
    """
    active = np.flatnonzero((demand > 0) & (tried > 0))
    shaken = _shaken(rents, generator)
    paid = np.einsum("ar,dtr->adt", problem.requests[active].astype(float), shaken)
    order = active[np.argsort(-(tried[active, None, None] / np.maximum(paid, 1e-15)), axis=0, kind="stable")]
    most = np.minimum(problem.fit, demand[:, None]).astype(float)
    taken = greedy_loads(problem, demand, most, order)
    worth = (taken * values[order]).sum(axis=0) / problem.prices
    shake, kind = np.nonzero(worth > WORTH_MIN)
    best = np.argsort(-worth[shake, kind], kind="stable")[:LOADS_MAX]
    loads = np.zeros((len(best), len(demand)), dtype=np.int64)
    for i, (s, k) in enumerate(zip(shake[best], kind[best], strict=True)):
        loads[i, order[:, s, k]] = taken[:, s, k]
    return Packing(kind[best], loads)


def _shaken(rents: Floats, generator: np.random.Generator) -> Floats:
    noise = generator.normal(0, 1, (len(SHAKES), *rents.shape)) * np.array(SHAKES)[:, None, None]
    shaken: Floats = np.maximum(rents, rents.max() * 1e-12) * np.exp(noise)
    return shaken
