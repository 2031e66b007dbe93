"""The restricted master program: how often to buy each known load, at the least cost, so that every pod has a place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import highspy
import numpy as np

from core.packing.column_generation.substitution_columns import StandIns
from core.packing.lp import quiet_solver
from core.packing.problem import Floats, Ints, Packing, Problem


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """An optimum over the loads known so far.

    Attributes:
        cost: Nano-dollars per hour; machines may be split.
        machines: [load], how many are bought.
        flows: [pair], how many places of a class go to pods that stand in.
        values: [class], what one more pod would cost.
    """

    cost: float
    machines: Floats
    flows: Floats
    values: Floats


class Master:
    """One row a class, one column a load of a type; passing a place on to a pod that stands in is a column that costs nothing.

    Those columns keep the values of classes in the order of what they ask for, so few loads are needed to get them right.
    """

    def __init__(self, problem: Problem, stand_ins: StandIns) -> None:
        self._problem = problem
        self._scale = float(problem.prices.max())
        self._pairs = len(stand_ins.pairs)
        self._known: dict[tuple[int, bytes], None] = {}
        self._types: list[int] = []
        self._loads: list[Ints] = []
        self._solver = quiet_solver()
        self._solver.setOptionValue("presolve", "off")
        self._add_rows()
        self._add_pairs(stand_ins.pairs)

    def add(self, types: Ints, loads: Ints) -> int:
        """Make loads known; how many were new."""
        fresh = [i for i, key in enumerate(_keys(types, loads)) if self._is_new(key)]
        if fresh:
            self._types += types[fresh].tolist()
            self._loads += list(loads[fresh])
            self._add_columns(self._problem.prices[types[fresh]] / self._scale, loads[fresh].astype(float))
        return len(fresh)

    def solved(self, demand: Ints) -> Mix:
        """The best mix for so many pods of each class; starts from the last one."""
        rows = np.arange(len(demand), dtype=np.int32)
        above = np.full(len(demand), highspy.kHighsInf)
        self._solver.changeRowsBounds(len(rows), rows, demand.astype(float), above)  # type: ignore[attr-defined]  # missing in its stubs
        self._solver.run()
        solution = self._solver.getSolution()
        columns = np.maximum(np.array(solution.col_value), 0)
        values = np.maximum(np.array(solution.row_dual), 0) * self._scale
        cost = float(values @ demand)
        return Mix(cost, columns[self._pairs :], columns[: self._pairs], values)

    def bought(self, times: Ints) -> Packing:
        """So many machines of each known load."""
        kinds = np.flatnonzero(times)
        types = np.array([self._types[i] for i in kinds], dtype=np.int64)
        loads = np.array([self._loads[i] for i in kinds], dtype=np.int64).reshape(len(kinds), -1)
        return Packing(np.repeat(types, times[kinds]), np.repeat(loads, times[kinds], axis=0))

    def _is_new(self, key: tuple[int, bytes]) -> bool:
        is_new = key not in self._known
        self._known[key] = None
        return is_new

    def _add_rows(self) -> None:
        rows = len(self._problem.counts)
        none = np.zeros(0, dtype=np.int32)
        above = np.full(rows, highspy.kHighsInf)
        self._solver.addRows(
            rows, np.zeros(rows), above, 0, np.zeros(rows, dtype=np.int32), none, np.zeros(0, dtype=np.float64)
        )

    def _add_pairs(self, pairs: Ints) -> None:
        if len(pairs):
            effects = np.zeros((len(pairs), len(self._problem.counts)))
            number = np.arange(len(pairs))
            effects[number, pairs[:, 0]] = -1
            effects[number, pairs[:, 1]] = 1
            self._add_columns(np.zeros(len(pairs)), effects)

    def _add_columns(self, prices: Floats, effects: Floats) -> None:
        column, row = np.nonzero(effects)
        starts = np.searchsorted(column, np.arange(len(prices))).astype(np.int32)
        none, above = np.zeros(len(prices)), np.full(len(prices), highspy.kHighsInf)
        self._solver.addCols(
            len(prices), prices, none, above, len(row), starts, row.astype(np.int32), effects[column, row]
        )


def _keys(types: Ints, loads: Ints) -> Iterable[tuple[int, bytes]]:
    return ((int(kind), load.tobytes()) for kind, load in zip(types, loads, strict=True))
