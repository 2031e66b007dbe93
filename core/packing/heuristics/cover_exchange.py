"""Swap a few machines for a cheaper set that offers room enough, if their pods can be fitted in."""

from __future__ import annotations

from typing import Final

import numpy as np

from core.packing.problem import Bools, Floats, Ints, Packing, Problem

SETS_DRAWN: Final = 400
SETS_TRIED: Final = 3
SLACKS: Final = (0.0, 0.002, 0.005, 0.01, 0.02)
"""How much more room than asked for a set must offer: with less, fitting the pods in fails more often."""

_CHUNKS: Final = 3
"""In how many portions for each machine the pods of a class are dealt out."""


def exchange(
    problem: Problem, demand: Ints, price_max: int, count: int, generator: np.random.Generator
) -> Packing | None:
    """A packing of `demand` on about `count` machines that costs less than `price_max`, None where none was found."""
    for machines in _cheaper_sets(problem, demand, price_max, count, generator):
        loads = fitted(problem, machines, demand)
        if loads is not None:
            used = loads.any(axis=1)
            return Packing(machines[used], loads[used])
    return None


def fitted(problem: Problem, machines: Ints, demand: Ints) -> Ints | None:
    """The loads of these machines that hold all of `demand`, or None.

    Large pods first, each portion to the machine whose free room is most like the pod, so that all resources run out together.
    """
    present = np.flatnonzero(demand)
    total = np.maximum(demand @ problem.requests, 1).astype(float)
    free = problem.room[machines] / total
    requests = problem.requests[present] / total
    loads = np.zeros((len(machines), len(demand)), dtype=np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in np.argsort(-requests.max(axis=1), kind="stable"):
            left, pod = int(demand[present[i]]), requests[i]
            portion = max(1, left // (_CHUNKS * len(machines)))
            fit = problem.fit[present[i], machines]
            while left:
                holds = np.minimum(
                    np.floor(np.fmin.reduce(free / pod, axis=1) * (1 + 1e-12)), fit - loads[:, present[i]]
                )
                likeness = np.where(holds > 0, (free @ pod) / np.sqrt((free * free).sum(axis=1)), -1.0)
                best = int(likeness.argmax())
                if likeness[best] < 0:
                    return None
                amount = min(left, portion, int(holds[best]))
                loads[best, present[i]] += amount
                free[best] -= amount * pod
                left -= amount
    return loads if (loads @ problem.requests <= problem.room[machines]).all() else None


def _cheaper_sets(
    problem: Problem, demand: Ints, price_max: int, count: int, generator: np.random.Generator
) -> list[Ints]:
    """Sets of types that cost less and offer enough of everything in sum, the cheapest first."""
    wanted = (demand @ problem.requests) * (1 + SLACKS[int(generator.integers(len(SLACKS)))])
    size = max(1, count - int(generator.integers(-1, 2)))
    drawn = generator.integers(0, len(problem.prices), size=(SETS_DRAWN, size - 1))
    rest = wanted - problem.room[drawn].sum(axis=1)
    spent = problem.prices[drawn].sum(axis=1)
    last = _cheapest_covering(problem, rest)
    prices = np.where(last >= 0, spent + problem.prices[last], price_max)
    ranked = np.argsort(prices, kind="stable")
    chosen = [int(i) for i in ranked[: 4 * SETS_TRIED] if prices[i] < price_max]
    sets = {tuple(sorted((*map(int, drawn[i]), int(last[i])))): None for i in chosen}
    return [np.array(one, dtype=np.int64) for one in list(sets)[:SETS_TRIED]]


def _cheapest_covering(problem: Problem, rest: Floats) -> Ints:
    """For each remainder the cheapest type with room for it, -1 where there is none."""
    covers: Bools = np.all(problem.room[None, :, :] >= rest[:, None, :], axis=2)
    priced = np.where(covers, problem.prices[None, :], np.iinfo(np.int64).max)
    found: Ints = priced.argmin(axis=1)
    return np.where(covers.any(axis=1), found, -1)
