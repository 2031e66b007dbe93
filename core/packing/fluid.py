"""The fluid relaxation: machines and pods may be split. Its optimum bounds every packing's cost from below."""

from __future__ import annotations

from dataclasses import dataclass

import highspy
import numpy as np

from core.packing.problem import Floats, Ints, Problem

BOUND_SLACK = 1e-9
"""Taken off the bound, relatively, for what floating point may have gained in evaluating it."""


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

    One row a class (its pods run somewhere) and one a type and resource (what runs there fits the machines). A class that a
    machine may hold only a few of adds no row here: the bound stays valid without.
    """
    types = len(problem.prices)
    used = np.flatnonzero(problem.requests.any(axis=0))
    scale = np.maximum(problem.room.max(axis=0), 1).astype(float)
    room = problem.room[:, used] / scale[used]
    requests = problem.requests[:, used] / scale[used]
    price_scale = float(problem.prices.max())
    pods, hosts = (found.astype(np.int64) for found in np.nonzero(problem.fit > 0))
    model = highspy.HighsLp()
    _fill_columns(model, problem.prices / price_scale, len(pods))
    _fill_rows(model, problem.counts, types * len(used))
    _fill_matrix(model, room, requests, pods, hosts)
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy says nothing of its types
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    solver.passModel(model)
    solver.run()
    solution = solver.getSolution()
    columns, duals = np.array(solution.col_value), np.array(solution.row_dual)
    loads = np.zeros(problem.fit.shape)
    loads[pods, hosts] = np.maximum(columns[types:], 0)
    rents = np.maximum(duals[len(problem.counts) :].reshape(types, len(used)), 0)
    values, bound = _proven(problem, room, requests, rents, price_scale)
    return Fluid(bound, np.maximum(columns[:types], 0), loads, values)


def _proven(problem: Problem, room: Floats, requests: Floats, rents: Floats, price_scale: float) -> tuple[Floats, int]:
    """A bound that holds whatever the solver's tolerance (weak duality).

    Rents are scaled until no machine's room is worth more than it costs; a pod is then worth the least rent it pays anywhere.
    """
    prices = problem.prices / price_scale
    worth = (room * rents).sum(axis=1)
    rents = rents * np.minimum(1.0, prices / np.maximum(worth, 1e-300))[:, None]
    paid = np.where(problem.fit > 0, requests @ rents.T, np.inf)
    values = paid.min(axis=1) * price_scale
    return values, int((values @ problem.counts) * (1 - BOUND_SLACK))


def _fill_columns(model: highspy.HighsLp, prices: Floats, loads: int) -> None:
    columns = len(prices) + loads
    model.num_col_ = columns
    model.col_cost_ = np.concatenate([prices, np.zeros(loads)])
    model.col_lower_ = np.zeros(columns)
    model.col_upper_ = np.full(columns, highspy.kHighsInf)


def _fill_rows(model: highspy.HighsLp, counts: Ints, capacity_rows: int) -> None:
    model.num_row_ = len(counts) + capacity_rows
    model.row_lower_ = np.concatenate([counts.astype(float), np.zeros(capacity_rows)])
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
