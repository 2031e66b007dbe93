"""The restricted master problem: how often each known column is bought so that every pod has a place at the least cost."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
import numpy as np

from core.packing.problem import (
    NO_TYPE,
    Bools,
    Floats,
    IntegerLimits,
    Ints,
    ItemIndex,
    LinearProgram,
    LpColumns,
    LpRows,
    Packing,
    PackingProblem,
    bytes_of_rows,
    distinct_loads,
    distributed,
    meeting,
)
from core.packing.settings import MasterProblemSettings

# Columns of the master problem: a load on a machine of a type, bought any number of times.


class Columns(msgspec.Struct, frozen=True, eq=False):
    """Some columns.

    Attributes:
        types: [column], the machine type.
        loads: [column, item], how many pods of each item the machine holds.
    """

    types: Ints
    loads: Ints

    @classmethod
    def of(cls, types: list[int], loads: list[Ints], *, items: int) -> Columns:
        """Return columns over this many items; the lists may be empty."""
        return cls(np.array(types, dtype=np.int64), np.array(loads, dtype=np.int64).reshape(len(loads), items))

    @classmethod
    def of_packing(cls, packing: Packing) -> Columns:
        """Return the columns that a packing uses; one that it uses several times is repeated."""
        return cls(packing.types, packing.loads)

    @classmethod
    def of_loads(cls, problem: PackingProblem, loads: Ints) -> Columns:
        """Each load ([load, item]) on the cheapest type that holds it; loads that no type holds are left out."""
        types = problem.cheapest_types(loads)
        is_feasible = loads.any(axis=1) & (types != NO_TYPE) & (loads <= problem.fit[:, types].T).all(axis=1)
        return cls(types[is_feasible], loads[is_feasible])

    @classmethod
    def of_single_items(cls, problem: PackingProblem) -> Columns:
        """Return for each item the type that holds only its pods at the least cost for each."""
        # amounts[i, t] = min(fit[i, t], counts[i]); the type with the least price[t] / amounts[i, t], amounts on the diagonal.
        amounts = np.minimum(problem.fit, problem.counts[:, None])
        types = np.argmin(problem.prices / np.maximum(amounts, 1e-9), axis=1)
        return cls(types, np.diag(amounts[np.arange(len(types)), types]))

    @classmethod
    def all_of(cls, problem: PackingProblem, combinations_max: int) -> Columns | None:
        """Return every load on the cheapest type that holds it; None if there are more combinations of pods than this."""
        amounts = np.minimum(problem.fit.max(axis=1), problem.counts) + 1
        combinations = math.prod(amounts.tolist())
        if combinations > combinations_max:
            return None
        loads = np.stack(np.unravel_index(np.arange(1, combinations), tuple(amounts.tolist())), axis=1).astype(np.int64)
        return cls.of_loads(problem, loads[problem.cheapest_types(loads) != NO_TYPE])

    def keys(self) -> Iterator[tuple[int, bytes]]:
        """The identity of each column."""
        yield from zip(self.types.tolist(), bytes_of_rows(self.loads), strict=True)

    def __len__(self) -> int:
        return len(self.types)


# Finds which items may take another's places: a place for a pod also holds one that requests no more and may run there.
#
# In the master problem each such pair is a column without cost, a dual-optimal inequality on the prices of the two items.


class Substitutions(msgspec.Struct, frozen=True, eq=False):
    """The partial order of items by what they request.

    Attributes:
        pairs: [substitution, 2], a place for the first item may go to the second; only neighbours in the order are named.
        order: [item], all items, none before one whose places it may take.
    """

    pairs: Ints
    order: Ints

    @classmethod
    def of(cls, problem: PackingProblem) -> Substitutions:
        """Return the order among a problem's items. An item with a cap takes no other's place: it could exceed the cap."""
        # Transitive reduction: a pair (a, c) is left out where some b with a → b → c exists, which is where the square of the
        # relation, as a matrix product, is positive. may: [source, substitute].
        may = _may_take(problem)
        neighbours = may & ~meeting(may, may)
        return cls(np.argwhere(neighbours), np.argsort(-may.sum(axis=1), kind="stable"))

    def assigned(self, places: Ints, *, flows: Floats, demand: Ints, integrality_tolerance: float) -> Ints:
        """Assign places to pods: an item gets at most as many as it has pods, and its substitutes get the rest.

        Args:
            places: [machine, item], changed in place and returned; a place that nobody takes is left out.
            flows: [substitution], how many places the linear program passes on.
            demand: [item], pods that need a place.
            integrality_tolerance: Smaller flows count as none.
        """
        totals = places.sum(axis=0)
        passed_on = np.flatnonzero(flows > integrality_tolerance)
        passed_on = passed_on[np.argsort(-flows[passed_on], kind="stable")]
        for source in self.order:
            excess = int(totals[source] - demand[source])
            if excess <= 0:
                continue
            for pair in passed_on[self.pairs[passed_on, 0] == source]:
                if excess <= 0:
                    break
                substitute = self.pairs[pair, 1]
                amount = min(excess, int(np.ceil(flows[pair] - integrality_tolerance)))
                machines, amounts = _removed(places, ItemIndex(int(source)), amount)
                places[machines, substitute] += amounts
                totals[substitute] += amount
                excess -= amount
            if excess > 0:
                _removed(places, ItemIndex(int(source)), excess)
        return places


def _may_take(problem: PackingProblem) -> Bools:
    """[source, substitute], whether its pods may have the source's places; the later of equal items substitutes."""
    # A substitute must fit every type that the source fits. It must request no more of any resource, and have no cap.
    fits = problem.fit > 0
    may = ~meeting(fits, ~fits.T)
    may &= ~problem.is_capped()
    for requested in problem.requests.T:
        may &= requested[:, None] >= requested[None, :]
    number = np.arange(len(problem.counts))
    may &= ~(may.T & (number[:, None] >= number[None, :]))
    return may


def _removed(places: Ints, item: ItemIndex, amount: int) -> tuple[Ints, Ints]:
    """Remove this many places of an item from the last machines; return the machines and how many were removed from each."""
    machines = np.flatnonzero(places[:, item])[::-1]
    amounts = distributed(amount, places[machines, item])
    touched = amounts > 0
    places[machines[touched], item] -= amounts[touched]
    return machines[touched], amounts[touched]


class MasterSolution(msgspec.Struct, frozen=True, eq=False):
    """An optimum over the columns known so far.

    Attributes:
        cost: Nano-dollars per hour; machines may be split.
        machines: [column], how many are bought.
        flows: [substitution], how many places of an item go to pods of another.
        item_values: [item], the dual price: what one more pod would cost.
    """

    cost: float
    machines: Floats
    flows: Floats
    item_values: Floats


class MasterProblem:
    """One covering row for each item, one variable for each column, and one without cost for each substitution.

    Minimise  Σ_c price[c] λ[c]
    subject to  Σ_c load[c, i] λ[c] - Σ_(i→j) f + Σ_(j→i) f ≥ demand[i]  for every item i,  and  λ, f ≥ 0.
    Substitution variables f keep the dual prices in the order of the requests, so few columns are needed to get them right.
    Prices are scaled to at most one for the solver.
    """

    def __init__(
        self, problem: PackingProblem, substitutions: Substitutions, settings: MasterProblemSettings | None = None
    ) -> None:
        self._problem = problem
        self._settings = settings or MasterProblemSettings()
        self._demand: Ints | None = None
        self._price_unit = float(problem.prices.max())
        self._substitutions = len(substitutions.pairs)
        self._keys: dict[tuple[int, bytes], None] = {}
        self._types: list[int] = []
        self._loads: list[Ints] = []
        self._program = LinearProgram(LpRows.at_least(np.zeros(len(problem.counts))), presolve=False)
        self._substitution_pairs = substitutions.pairs
        if self._substitutions:
            coefficients = _coefficients(substitutions.pairs, len(problem.counts))
            self._program.add_columns(LpColumns.dense(np.zeros(self._substitutions), coefficients))

    def loads(self, item_values: Floats, value_for_price_min: float) -> Ints:
        """Return [load, item], the distinct loads of columns with at least this value for their price."""
        loads = np.array(self._loads, dtype=np.int64)
        is_worth_it = loads @ item_values >= self._problem.prices[self._types] * value_for_price_min
        return distinct_loads(loads[is_worth_it])

    def add(self, columns: Columns) -> int:
        """Add columns, and return how many were new."""
        new = [i for i, key in enumerate(columns.keys()) if self._is_new(key)]
        if new:
            types, loads = columns.types[new], columns.loads[new]
            self._types += types.tolist()
            self._loads += list(loads)
            costs = self._problem.prices[types] / self._price_unit
            self._program.add_columns(LpColumns.dense(costs, loads.astype(float)))
        return len(new)

    def solved(self, demand: Ints) -> MasterSolution:
        """Return the optimum for this many pods of each item; the solver starts from its last basis.

        If only columns were added since, that is a solution already, and the primal simplex may continue
        (docs/engineering/handbook/target-packing.md).
        """
        is_feasible = self._demand is not None and np.array_equal(demand, self._demand)
        self._demand = demand.copy()
        self._program.set_rows(LpRows.at_least(demand.astype(float)))
        self._program.solve(is_feasible=is_feasible and self._settings.continues_primal)
        amounts = np.maximum(self._program.column_values(), 0)
        item_values = np.maximum(self._program.row_duals(), 0) * self._price_unit
        flows, machines = amounts[: self._substitutions], amounts[self._substitutions :]
        return MasterSolution(float(item_values @ demand), machines, flows, item_values)

    def whole(self, demand: Ints, limits: IntegerLimits) -> MasterSolution | None:
        """Return the best mix of whole machines over the known columns that the solver finds; it has no dual prices."""
        costs = self._problem.prices[self._types] / self._price_unit
        pairs = self._substitution_pairs
        matrix = np.concatenate([_coefficients(pairs, len(demand)), np.array(self._loads, dtype=float)])
        columns = LpColumns.dense(np.concatenate([np.zeros(len(pairs)), costs]), matrix)
        program = LinearProgram(LpRows.at_least(demand.astype(float)), columns, integer=limits)
        program.solve()
        if not program.has_solution():
            return None
        amounts = np.rint(program.column_values())
        flows, machines = amounts[: len(pairs)], amounts[len(pairs) :]
        return MasterSolution(float(costs @ machines * self._price_unit), machines, flows, np.zeros(len(demand)))

    def bought(self, times: Ints) -> Packing:
        """Return this many machines of each known column ([column]) as a packing."""
        columns = np.flatnonzero(times)
        types = np.array([self._types[i] for i in columns], dtype=np.int64)
        loads = np.array([self._loads[i] for i in columns], dtype=np.int64)
        loads = loads.reshape(len(columns), len(self._problem.counts))
        return Packing(np.repeat(types, times[columns]), np.repeat(loads, times[columns], axis=0))

    def _is_new(self, key: tuple[int, bytes]) -> bool:
        is_new = key not in self._keys
        self._keys[key] = None
        return is_new


def _coefficients(pairs: Ints, items: int) -> Floats:
    """[substitution, item], a place less of the first item of a pair, and one more of the second."""
    coefficients = np.zeros((len(pairs), items))
    number = np.arange(len(pairs))
    coefficients[number, pairs[:, 0]] = -1
    coefficients[number, pairs[:, 1]] = 1
    return coefficients
