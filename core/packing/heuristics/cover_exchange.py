"""Replaces a few machines by a cheaper set of types that covers their demand, if their pods fit into it."""

from __future__ import annotations

import numpy as np

from core.packing.problem import Bools, Floats, Ints, Packing, PackingProblem
from core.packing.search_settings import CoverExchangeSettings


def exchanged(
    problem: PackingProblem,
    demand: Ints,
    *,
    price_max: int,
    machines: int,
    generator: np.random.Generator,
    settings: CoverExchangeSettings,
) -> Packing | None:
    """Return a packing of `demand` on about this many machines that costs less than `price_max`; None if none is found."""
    sets = _cheaper_sets(
        problem, demand, price_max=price_max, machines=machines, generator=generator, settings=settings
    )
    for types in sets:
        loads = fitted(problem, types=types, demand=demand, portions_per_machine=settings.portions_per_machine)
        if loads is not None:
            used = loads.any(axis=1)
            return Packing(types[used], loads[used])
    return None


def fitted(problem: PackingProblem, *, types: Ints, demand: Ints, portions_per_machine: int) -> Ints | None:
    """Return [machine, item], loads of machines of these types ([machine]) that hold all of `demand` ([item]), or None.

    Large pods come first, and each portion goes to the machine whose free capacity is most like the pod, so that all resources
    run out together.
    """
    # In shares of the total request of each resource, the likeness of a machine's free vector to the pod's request vector is
    # free · pod / |free|, the cosine up to the constant |pod|; machines where no pod fits get -1.
    # free: [machine, resource], requests: [present item, resource]. The factor 1 + 1e-12 undoes rounding in the division.
    present = np.flatnonzero(demand)
    total = np.maximum(demand @ problem.requests, 1).astype(float)
    free = problem.capacity[types] / total
    requests = problem.requests[present] / total
    loads = np.zeros((len(types), len(demand)), dtype=np.int64)
    with np.errstate(divide="ignore", invalid="ignore"):
        for i in np.argsort(-requests.max(axis=1), kind="stable"):
            item, left, pod = present[i], int(demand[present[i]]), requests[i]
            portion = max(1, left // (portions_per_machine * len(types)))
            fit = problem.fit[item, types]
            while left:
                holds = np.minimum(np.floor(np.fmin.reduce(free / pod, axis=1) * (1 + 1e-12)), fit - loads[:, item])
                likeness = np.where(holds > 0, (free @ pod) / np.sqrt((free * free).sum(axis=1)), -1.0)
                best = int(likeness.argmax())
                if likeness[best] < 0:
                    return None
                amount = min(left, portion, int(holds[best]))
                loads[best, item] += amount
                free[best] -= amount * pod
                left -= amount
    # Floating point chose the amounts; integers decide whether they fit.
    return loads if (loads @ problem.requests <= problem.capacity[types]).all() else None


def _cheaper_sets(
    problem: PackingProblem,
    demand: Ints,
    *,
    price_max: int,
    machines: int,
    generator: np.random.Generator,
    settings: CoverExchangeSettings,
) -> list[Ints]:
    """Yield sets of types ([machine]) that cost less and together offer enough of every resource, the cheapest first."""
    # All types of a set but the last are drawn at random; the last is the cheapest that offers what is still lacking:
    # rest = demand · requests · (1 + slack) - Σ capacity of those drawn. drawn: [set, machines - 1], rest: [set, resource].
    slacks = settings.capacity_slacks_relative
    wanted = (demand @ problem.requests) * (1 + slacks[int(generator.integers(len(slacks)))])
    size = max(1, machines - int(generator.integers(-1, 2)))  # one machine fewer, as many, or one more
    drawn = generator.integers(0, len(problem.prices), size=(settings.sets_drawn, size - 1))
    rest = wanted - problem.capacity[drawn].sum(axis=1)
    spent = problem.prices[drawn].sum(axis=1)
    last = _cheapest_covering(problem, rest)
    prices = np.where(last >= 0, spent + problem.prices[last], price_max)
    ranked = np.argsort(prices, kind="stable")[: settings.draws_per_set_tried * settings.sets_tried_max]
    chosen = [int(i) for i in ranked if prices[i] < price_max]
    sets = {tuple(sorted((*map(int, drawn[i]), int(last[i])))): None for i in chosen}
    return [np.array(one, dtype=np.int64) for one in list(sets)[: settings.sets_tried_max]]


def _cheapest_covering(problem: PackingProblem, rest: Floats) -> Ints:
    """Return [set], the cheapest type with capacity for each remainder ([set, resource]), -1 if there is none."""
    covers: Bools = np.all(problem.capacity[None, :, :] >= rest[:, None, :], axis=2)
    priced = np.where(covers, problem.prices[None, :], np.iinfo(np.int64).max)
    found: Ints = priced.argmin(axis=1)
    return np.where(covers.any(axis=1), found, -1)
