"""A lower bound from whole loads, for where machines hold so few pods that fractions say little.

Whatever pods are taken to be worth: divided by the most that a machine's load is worth for its price, the worth of all pods is
no more than what any packing costs (weak duality). The values come from the configuration program; what the best load of a type
is worth is bounded by a linear program first and, for the types that decide, by the whole knapsack.
"""

from __future__ import annotations

from typing import Final

import highspy
import numpy as np

from core.packing.column_generation.dive import Configurations
from core.packing.column_generation.shadow_prices import Rents, most_worth
from core.packing.lp import quiet_solver
from core.packing.problem import Floats, Ints, Packing, Problem
from core.packing.search_budget import Budget

ROUNDS_MAX: Final = 12
"""Most times that pods are valued anew after loads turned up that are worth more than their machine."""

NEAR: Final = 1e-3
"""Worth over price at which no dearer load is looked for."""

BRANCHES_MAX: Final = 2_000
"""Most branches of one knapsack: a bound is had before it is solved."""

SLACK: Final = 1e-5
"""Added to a knapsack's worth, relatively, for the solver's tolerances."""


def proven(problem: Problem, known: Packing, bound: int, generator: np.random.Generator, budget: Budget) -> int:
    """Nano-dollars per hour that no packing undercuts; at least `bound`, which is one.

    Args:
        problem: The pods and all types that might hold them.
        known: A good packing: the values of pods are taken from its loads.
        bound: The fluid relaxation's.
        generator: For the search of further loads.
        budget: What is left of the search's.
    """
    search = Configurations(problem, generator, budget)
    values = search.values(known, bound)
    rents = Rents(problem, problem.counts)
    for _ in range(ROUNDS_MAX):
        overpriced, loads = _overpriced(problem, values, rents.under(values), budget)
        bound = max(bound, int(values @ problem.counts / overpriced))
        if overpriced <= 1 + NEAR or not len(loads.types) or budget.is_spent:
            break
        values = search.values(loads, bound)
    return bound


def _overpriced(problem: Problem, values: Floats, rents: Floats, budget: Budget) -> tuple[float, Packing]:
    """The most that any load is worth for the price of its machine, at the most; and loads worth more than that."""
    most = np.minimum(problem.fit, problem.counts[:, None])
    worth = most_worth(problem, most, values, rents) / problem.prices
    types, loads = list[int](), list[Ints]()
    is_whole = np.zeros(len(worth), dtype=np.bool_)
    while True:
        kind = int(np.argmax(worth))
        if is_whole[kind] or worth[kind] <= 1 + NEAR or not budget.step():
            break
        is_whole[kind] = True
        bounded, load = _knapsack(problem, most[:, kind], values / problem.prices[kind], kind)
        worth[kind] = min(worth[kind], bounded)
        if load @ values > problem.prices[kind]:
            types.append(kind)
            loads.append(load)
    found = np.array(loads, dtype=np.int64).reshape(len(loads), len(problem.counts))
    return float(worth.max()), Packing(np.array(types, dtype=np.int64), found)


def _knapsack(problem: Problem, most: Ints, values: Floats, kind: int) -> tuple[float, Ints]:
    """What the best load of a type is worth at the most, and a load; `most` pods of each class."""
    taken = np.flatnonzero((most > 0) & (values > 0))
    used = np.flatnonzero(problem.requests[taken].any(axis=0))
    room = np.maximum(problem.room[kind, used], 1).astype(float)
    shares = problem.requests[taken][:, used] / room
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(taken), len(used)
    model.col_cost_, model.col_lower_, model.col_upper_ = (
        -values[taken],
        np.zeros(len(taken)),
        most[taken].astype(float),
    )
    model.row_lower_, model.row_upper_ = np.full(len(used), -highspy.kHighsInf), np.ones(len(used))
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = (np.arange(len(taken) + 1) * len(used)).astype(np.int32)
    model.a_matrix_.index_ = np.tile(np.arange(len(used)), len(taken)).astype(np.int32)
    model.a_matrix_.value_ = shares.ravel()
    model.integrality_ = [highspy.HighsVarType.kInteger] * len(taken)
    solver = quiet_solver()
    solver.setOptionValue("mip_rel_gap", SLACK)
    solver.setOptionValue("mip_max_nodes", BRANCHES_MAX)
    solver.passModel(model)
    solver.run()
    load = np.zeros(len(problem.counts), dtype=np.int64)
    columns = np.array(solver.getSolution().col_value)
    if len(columns):
        load[taken] = np.floor(columns + 1e-6).astype(np.int64)
    if not (load @ problem.requests <= problem.room[kind]).all():  # within the solver's tolerances only
        load[:] = 0
    return -solver.getInfo().mip_dual_bound * (1 + SLACK), load
