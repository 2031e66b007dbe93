"""Improve a packing until it is proven good enough, the steps are used up, or the caller's time is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from core.packing.column_generation.dive import Configurations
from core.packing.heuristics.cover_exchange import exchange
from core.packing.heuristics.guided_rounding import cuts, guided_fill
from core.packing.heuristics.two_type_rounding import by_pairs
from core.packing.heuristics.value_packing import pack_by_value
from core.packing.problem import Ints, Packing, Problem, joined, resized
from core.packing.relaxation.fluid_lp import Fluid
from core.packing.relaxation.preparation import Prepared
from core.packing.search_budget import Budget

GAP_COARSE: Final = 0.02
PODS_PER_MACHINE_FEW: Final = 30
"""If the fluid solution rounds worse than that and machines hold no more pods, loads are looked for one by one."""

PAIRS_KNOWN: Final = 3
"""So many of the packings by pairs of types are where that begins."""

PAIRS_MAX: Final = 3_000
"""Most pairs of class and type for which they are: with more, the most promising types only."""

GAP_DONE: Final = 1e-4
"""Cost over bound at which looking on is not worth a pod's waiting."""

FILLS_SURE: Final = 4
"""So many ways of rounding are tried even if the solver has used up the time: most of the saving for hundredths of a second."""

EXCHANGE_SHARE: Final = 0.9
"""How often a swap for a cheaper set is tried; packing by value takes twenty times as long."""

EXCHANGE_MACHINES_MAX: Final = 5
RUIN_MACHINES_MAX: Final = 24
RUIN_MACHINES_FEW: Final = 6
RANDOM_SHARE: Final = 0.3
PROMISING_TYPES: Final = 8

FULL_EVERY: Final = 3
"""Every so many steps all types are tried, not only the promising ones."""

PATIENCE_STEPS: Final = 500
"""After so many steps in a row that saved nothing, the search ends."""

CLASSES_BY_VALUE_MAX: Final = 600
"""With more classes, packing by value takes seconds where swaps take milliseconds."""

NOISES: Final = (0.0, 0.05, 0.2)
"""By how much values are shaken before packing by them."""


@dataclass(frozen=True, slots=True, eq=False)
class Improved:
    """The best packing found, and a proven lower bound on any packing's cost."""

    packing: Packing
    lower_bound: int


def improve(ready: Prepared, incumbent: Packing, *, seed: int, budget: Budget) -> Improved:
    """Return a packing at most as dear as `incumbent`."""
    return _improved(ready, incumbent, seed, budget, is_quick=False)


def round_only(ready: Prepared, incumbent: Packing, *, seed: int, budget: Budget) -> Improved:
    """As `improve`, but only what takes a fraction of a second."""
    return _improved(ready, incumbent, seed, budget, is_quick=True)


def _improved(ready: Prepared, incumbent: Packing, seed: int, budget: Budget, *, is_quick: bool) -> Improved:
    small, fluid = ready.small, ready.fluid
    generator = np.random.default_rng(seed)
    start = resized(small, incumbent)
    best = _filled(small, fluid, start, generator, budget)
    known = [best]
    if best is not start and is_coarse(small, fluid.bound, best.cost(small), len(best.types)):
        known = by_pairs(small, fluid, generator, budget)[:PAIRS_KNOWN] + known
    if not is_quick and is_coarse(small, fluid.bound, best.cost(small), len(best.types)) and not budget.is_spent:
        known.append(_by_loads(small, fluid, known, generator, budget))
    best = _cheapest(small, known)
    if not is_quick:
        best = _ruin_and_recreate(small, fluid, best, generator, budget)
    found = Packing(ready.kept[best.types], best.loads)
    found.check(ready.problem)
    return Improved(found, fluid.bound)


def _filled(problem: Problem, fluid: Fluid, best: Packing, generator: np.random.Generator, budget: Budget) -> Packing:
    """The best of a few ways to round the fluid solution."""
    for number, cut in enumerate(cuts(fluid)):
        if best.cost(problem) <= fluid.bound * (1 + GAP_DONE) or not budget.step(sure=number < FILLS_SURE):
            break
        found = guided_fill(problem, fluid, generator, cut)
        if found.cost(problem) < best.cost(problem):
            best = found
        if is_coarse(problem, fluid.bound, best.cost(problem), len(best.types)):
            break
    return best


def is_coarse(problem: Problem, bound: int, cost: int, machines: int) -> bool:
    """Whether machines are so small or pods so large that fractions say little."""
    is_small = problem.counts.sum() <= PODS_PER_MACHINE_FEW * machines and len(problem.counts) <= CLASSES_BY_VALUE_MAX
    return bool(is_small and cost > bound * (1 + GAP_COARSE))


def _cheapest(problem: Problem, packings: list[Packing]) -> Packing:
    costs = [packing.cost(problem) for packing in packings]
    return packings[costs.index(min(costs))]


def _by_loads(
    problem: Problem, fluid: Fluid, known: list[Packing], generator: np.random.Generator, budget: Budget
) -> Packing:
    """The configuration program's packing, from the loads of those that are known."""
    types = _promising(problem, fluid, max(PROMISING_TYPES, PAIRS_MAX // len(problem.counts)))
    types = np.unique(np.concatenate([types, *(packing.types for packing in known)]))
    start = [Packing(np.searchsorted(types, packing.types), packing.loads) for packing in known]
    return resized(problem, Configurations(problem.restricted(types), generator, budget).packing(start, fluid.bound))


def _ruin_and_recreate(
    problem: Problem, fluid: Fluid, packing: Packing, generator: np.random.Generator, budget: Budget
) -> Packing:
    """Take some machines away, pack their pods anew, keep what is no dearer: equal cost lets the search wander."""
    cost = packing.cost(problem)
    promising = problem.restricted(_promising(problem, fluid, PROMISING_TYPES))
    share = EXCHANGE_SHARE if len(problem.counts) <= CLASSES_BY_VALUE_MAX else 1.0
    patience = PATIENCE_STEPS
    while len(packing.types) > 1 and cost > fluid.bound * (1 + GAP_DONE) and patience and budget.step():
        patience -= 1
        swaps = generator.random() < share
        ruined = _ruined(problem, fluid, packing, generator, EXCHANGE_MACHINES_MAX if swaps else RUIN_MACHINES_MAX)
        demand = packing.loads[ruined].sum(axis=0)
        narrow = budget.steps % FULL_EVERY != 0 and bool((promising.fit[demand > 0].max(axis=1) > 0).all())
        market = promising if narrow else problem
        noise = float(generator.choice(NOISES))
        price = int(problem.prices[packing.types[ruined]].sum())
        if swaps:
            swapped = exchange(market, demand, price, len(ruined), generator)
            if swapped is None:
                continue
            anew = resized(problem, swapped)
        else:
            anew = resized(problem, pack_by_value(market, demand, fluid.values, generator, noise=noise))
        saved = price - anew.cost(problem)
        if saved >= 0:
            kept = np.setdiff1d(np.arange(len(packing.types)), ruined)
            packing = joined([Packing(packing.types[kept], packing.loads[kept]), anew], len(problem.counts))
            cost -= saved
            patience = PATIENCE_STEPS if saved else patience
    return packing


def _promising(problem: Problem, fluid: Fluid, many: int) -> Ints:
    """Types that the fluid solution buys, and those that its prices make nearly as good."""
    density = (problem.fit * fluid.values[:, None]).max(axis=0) / problem.prices
    bought = np.flatnonzero(fluid.machines > 1e-6)
    best = np.argsort(-density, kind="stable")[:many]
    return np.unique(np.concatenate([bought, best]))


def _ruined(problem: Problem, fluid: Fluid, packing: Packing, generator: np.random.Generator, top: int) -> Ints:
    """Machines to take away: those worth least for their price, shaken, or any at random."""
    machines = len(packing.types)
    most = min(machines, max(RUIN_MACHINES_FEW, machines // 4))
    many = int(generator.integers(2, min(most, top) + 1))
    if generator.random() < RANDOM_SHARE:
        return np.sort(generator.choice(machines, size=many, replace=False))
    worth = (packing.loads @ fluid.values) / problem.prices[packing.types]
    shaken = worth + generator.normal(0, 0.05 + 0.1 * generator.random(), machines)
    return np.sort(np.argsort(shaken, kind="stable")[:many])
