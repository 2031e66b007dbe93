"""The fluid relaxation: machines and pods may be split. Its optimum bounds every packing's cost from below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import highspy
import numpy as np

from core.packing.lp import quiet_solver
from core.packing.problem import Bools, Floats, Ints, Problem
from core.packing.relaxation.active_types import Elsewhere, first_choice, rivals

BOUND_SLACK: Final = 1e-9
"""Taken off the bound, relatively, for what floating point may have gained in evaluating it."""

LOADS_MAX: Final = 30_000
"""Most pairs of class and type that are solved as they are: about a third of a second."""

STEPS_PER_DOUBLING: Final = (16, 8, 4, 2, 1)
"""How finely sizes of pods are told apart where there are more: as finely as the bound allows."""

TYPES_USUAL: Final = 40
"""Most types that the relaxation is usually solved over: few at first, others join as they are needed."""

ROUNDS_MAX: Final = 12
"""Most rounds in which types join. Where very many cost the same for what they hold, each round would gain next to nothing."""


GAP_DONE: Final = 1e-5
"""Cost over what is proven at which no further types join."""


@dataclass(frozen=True, slots=True, eq=False)
class Fluid:
    """The relaxation's solution.

    Attributes:
        bound: Nano-dollars per hour that no packing undercuts.
        machines: [type], how many machines it buys.
        loads: [class, type], how many pods of a class it runs on a type.
        values: [class], what one more pod would cost.
    """

    bound: int
    machines: Floats
    loads: Floats
    values: Floats


def relax(problem: Problem) -> Fluid:
    """Solve it: minimise the price of `y` machines so that loads `x` cover every class and fit the room bought.

    One row a class (its pods run somewhere) and one a type and resource (what runs there fits the machines). Where there are
    very many classes, alike ones are solved as one; the bound is computed from every single class all the same.
    """
    used = np.flatnonzero(problem.requests.any(axis=0))
    scale = np.maximum(problem.room.max(axis=0), 1)[used].astype(float)
    room, requests = problem.room[:, used] / scale, problem.requests[:, used] / scale
    price_scale = max(float(problem.prices.max()), 1.0)  # an overlay may make everything free
    prices = problem.prices / price_scale
    cells = _cells(problem)
    counts = np.bincount(cells, weights=problem.counts)
    shares = problem.counts / counts[cells]
    middle = np.stack([np.bincount(cells, weights=column * shares) for column in requests.T], axis=1).astype(float)
    fits = problem.fit[np.unique(cells, return_index=True)[1]] > 0
    machines, loads, rents = _over_types(prices, room, middle, counts.astype(float), fits)
    values, bound = _proven(problem, room, requests, rents, price_scale)
    return Fluid(bound, machines, loads[cells] * shares[:, None], values)


def _over_types(
    prices: Floats, room: Floats, requests: Floats, counts: Floats, fits: Bools
) -> tuple[Floats, Floats, Floats]:
    """`_solved` over as many types as it takes, or as join in `ROUNDS_MAX` rounds: what is proven holds anyway."""
    chosen = first_choice(prices, room, requests, fits)
    others = Elsewhere(prices, room, requests, fits)
    for number in range(1, ROUNDS_MAX + 1):
        machines, loads, rents = np.zeros(len(prices)), np.zeros(fits.shape), np.zeros(room.shape)
        found = _solved(prices[chosen], room[chosen], requests, counts, fits[:, chosen])
        machines[chosen], loads[:, chosen], rents[chosen] = found
        paid = np.where(fits[:, chosen], requests @ rents[chosen].T, np.inf).min(axis=1)
        elsewhere, least = others.rents(paid, rents[chosen])
        unchosen = np.setdiff1d(np.arange(len(prices)), chosen)
        rents[unchosen] = elsewhere[unchosen]
        more = rivals(prices, least, chosen)
        if not more.size or number == ROUNDS_MAX or _is_proven(prices, room, requests, counts, fits, machines, rents):
            break
        chosen = np.union1d(chosen, more)
    return machines, loads, rents


def _cells(problem: Problem) -> Ints:
    """[class], the number of the cell that it is solved in: classes that fit the same types and request nearly the same."""
    cells: Ints = np.arange(len(problem.counts))
    pairs_each = min(len(problem.prices), TYPES_USUAL)
    if len(cells) * pairs_each <= LOADS_MAX:
        return cells
    _, pattern = np.unique(problem.fit > 0, axis=0, return_inverse=True)
    sizes = np.where(problem.requests > 0, np.log2(np.maximum(problem.requests, 1)), -1.0)
    for steps in STEPS_PER_DOUBLING:
        keys = np.column_stack([pattern.ravel(), np.floor(sizes * steps)])
        cells = np.unique(keys, axis=0, return_inverse=True)[1].ravel().astype(np.int64)
        if (cells.max() + 1) * pairs_each <= LOADS_MAX:
            break
    return cells


def _solved(
    prices: Floats, room: Floats, requests: Floats, counts: Floats, fits: Bools
) -> tuple[Floats, Floats, Floats]:
    """Machines by type, loads by class and type, and what each type's resources are worth (the duals of its rows)."""
    pods, hosts = (found.astype(np.int64) for found in np.nonzero(fits))
    model = highspy.HighsLp()
    _fill_columns(model, prices, len(pods))
    _fill_rows(model, counts, room.size)
    _fill_matrix(model, room, requests, pods, hosts)
    solver = quiet_solver()
    solver.passModel(model)
    solver.run()
    solution = solver.getSolution()
    columns, duals = np.array(solution.col_value), np.array(solution.row_dual)
    loads = np.zeros(fits.shape)
    loads[pods, hosts] = np.maximum(columns[len(prices) :], 0)
    return np.maximum(columns[: len(prices)], 0), loads, np.maximum(duals[len(counts) :].reshape(room.shape), 0)


def _is_proven(
    prices: Floats, room: Floats, requests: Floats, counts: Floats, fits: Bools, machines: Floats, rents: Floats
) -> bool:
    """Whether further types can save next to nothing."""
    paid = _paid(prices, room, requests, fits, rents)
    return bool(paid @ counts >= (prices @ machines) * (1 - GAP_DONE))


def _proven(problem: Problem, room: Floats, requests: Floats, rents: Floats, price_scale: float) -> tuple[Floats, int]:
    """A bound that holds whatever the solver's tolerance (weak duality).

    Rents are scaled until no machine's room is worth more than it costs; a pod is then worth the least rent it pays anywhere.
    """
    values = _paid(problem.prices / price_scale, room, requests, problem.fit > 0, rents) * price_scale
    return values, int((values @ problem.counts) * (1 - BOUND_SLACK))


def _paid(prices: Floats, room: Floats, requests: Floats, fits: Bools, rents: Floats) -> Floats:
    """[class], the least that a pod pays anywhere, with rents scaled so that no machine's room is worth more than it costs."""
    worth = (room * rents).sum(axis=1)
    rents = rents * np.minimum(1.0, prices / np.maximum(worth, 1e-300))[:, None]
    paid: Floats = np.where(fits, requests @ rents.T, np.inf).min(axis=1)
    return paid


def _fill_columns(model: highspy.HighsLp, prices: Floats, loads: int) -> None:
    columns = len(prices) + loads
    model.num_col_ = columns
    model.col_cost_ = np.concatenate([prices, np.zeros(loads)])
    model.col_lower_ = np.zeros(columns)
    model.col_upper_ = np.full(columns, highspy.kHighsInf)


def _fill_rows(model: highspy.HighsLp, counts: Floats, capacity_rows: int) -> None:
    model.num_row_ = len(counts) + capacity_rows
    model.row_lower_ = np.concatenate([counts, np.zeros(capacity_rows)])
    model.row_upper_ = np.full(model.num_row_, highspy.kHighsInf)


def _fill_matrix(model: highspy.HighsLp, room: Floats, requests: Floats, pods: Ints, hosts: Ints) -> None:
    types, used = room.shape
    classes = len(requests)
    machine_rows = classes + np.arange(types * used)
    load_rows = np.concatenate([pods[:, None], classes + hosts[:, None] * used + np.arange(used)[None]], axis=1)
    load_values = np.concatenate([np.ones((len(pods), 1)), -requests[pods]], axis=1)
    starts = np.concatenate([np.arange(types) * used, types * used + np.arange(len(pods) + 1) * (used + 1)])
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = starts.astype(np.int32)
    model.a_matrix_.index_ = np.concatenate([machine_rows, load_rows.ravel()]).astype(np.int32)
    model.a_matrix_.value_ = np.concatenate([room.ravel(), load_values.ravel()])
