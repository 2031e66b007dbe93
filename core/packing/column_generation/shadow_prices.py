"""What room is worth to pods, for every type by itself: the duals of each type's knapsack with pods that may be split."""

from __future__ import annotations

import highspy
import numpy as np

from core.packing.lp import quiet_solver
from core.packing.problem import Floats, Ints, Problem


class Rents:
    """The knapsacks of all types as one linear program, solved again and again under other values of pods."""

    def __init__(self, problem: Problem, demand: Ints) -> None:
        self._prices = problem.prices.astype(float)
        self._used = np.flatnonzero(problem.requests.any(axis=0))
        most = np.minimum(problem.fit, demand[:, None])
        self._pods, self._hosts = np.nonzero(most > 0)
        self._room = np.maximum(problem.room[:, self._used], 1).astype(float)
        self._shape = (len(self._room), problem.requests.shape[1])
        self._solver = quiet_solver()
        self._solver.setOptionValue("presolve", "off")
        shares = problem.requests[self._pods][:, self._used] / self._room[self._hosts]
        self._solver.passModel(self._model(most[self._pods, self._hosts].astype(float), shares))

    def under(self, values: Floats) -> Floats:
        """[type, resource], nano-dollars for a unit of room where pods are worth so much."""
        costs = -values[self._pods] / self._prices[self._hosts]
        columns = np.arange(len(costs), dtype=np.int32)
        self._solver.changeColsCost(len(costs), columns, costs)
        self._solver.run()
        duals = np.maximum(-np.array(self._solver.getSolution().row_dual), 0).reshape(self._room.shape)
        rents = np.zeros(self._shape)
        rents[:, self._used] = duals * self._prices[:, None] / self._room
        return rents

    def _model(self, most: Floats, shares: Floats) -> highspy.HighsLp:
        used = len(self._used)
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(most), self._room.size
        model.col_cost_, model.col_lower_, model.col_upper_ = np.zeros(len(most)), np.zeros(len(most)), most
        model.row_lower_ = np.full(self._room.size, -highspy.kHighsInf)
        model.row_upper_ = np.ones(self._room.size)
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_ = (np.arange(len(most) + 1) * used).astype(np.int32)
        model.a_matrix_.index_ = (self._hosts[:, None] * used + np.arange(used)).ravel().astype(np.int32)
        model.a_matrix_.value_ = shares.ravel()
        return model


def most_worth(problem: Problem, most: Ints, values: Floats, rents: Floats) -> Floats:
    """[type], what a machine's load may be worth at the most, whatever the rents (weak duality).

    Args:
        problem: What to pack and where.
        most: [class, type], how many pods of a class one machine may get.
        values: [class], what a pod is worth.
        rents: [type, resource], what a unit of room is worth.
    """
    gained = np.maximum(values[:, None] - problem.requests @ rents.T, 0) * most
    worth: Floats = (problem.room * rents).sum(axis=1) + gained.sum(axis=0)
    return worth
