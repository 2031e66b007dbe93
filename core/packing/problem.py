"""The packing problem as arrays, and a packing as machines with loads.

In the terms of operations research this is vector bin packing with several bin types: an *item* is a group of interchangeable
pods (`counts` says how many), a *type* is a type of machine with a price, and a *load* is what one machine holds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NewType

import highspy
import msgspec
import numpy as np
from numpy.typing import NDArray

from core.errors import invariant
from core.packing.settings import PRIMAL_ITERATIONS_MAX, WholeMachineSettings

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ItemIndex = NewType("ItemIndex", int)
"""Row of `PackingProblem.requests`."""

MachineTypeIndex = NewType("MachineTypeIndex", int)
"""Row of `PackingProblem.capacity`."""

NO_TYPE: Final = MachineTypeIndex(-1)
"""No machine type holds the load."""


class PackingProblem(msgspec.Struct, frozen=True, eq=False):
    """Items to pack, and the types of machine to pack them on.

    Attributes:
        requests: [item, resource], what one pod of the item takes.
        counts: [item], how many pods the item has.
        capacity: [type, resource], what a machine offers to pods.
        prices: [type], nano-dollars per hour, above zero.
        allowed: [item, type], whether the item's pods may run there.
        fit: [item, type], how many pods of the item fit a machine that holds nothing else.
    """

    requests: Ints
    counts: Ints
    capacity: Ints
    prices: Ints
    allowed: Bools
    fit: Ints

    @classmethod
    def of(
        cls,
        *,
        requests: Ints,
        counts: Ints,
        capacity: Ints,
        prices: Ints,
        allowed: Bools,
        pods_per_machine_max: Ints | None = None,
    ) -> PackingProblem:
        """Build a problem from its attributes; `fit` follows from the others.

        `pods_per_machine_max` is [item], a cap on the item's pods on one machine whatever its capacity; zero for no cap.

        Raises:
            InvariantError: If an item fits no type.
        """
        fit = np.where(allowed, _fit(requests, capacity), 0)
        if pods_per_machine_max is not None:
            cap = pods_per_machine_max[:, None]
            fit = np.where(cap > 0, np.minimum(fit, cap), fit)
        invariant(bool((fit.max(axis=1, initial=0) > 0).all()), "every item fits some type")
        return cls(requests, counts, capacity, prices, allowed, fit)

    def cheapest_type(self, load: Ints) -> MachineTypeIndex:
        """Return the cheapest type that holds `load` ([item]), ties to the lower index; `NO_TYPE` if none does."""
        present = np.flatnonzero(load)
        holds = (self.capacity >= load @ self.requests).all(axis=1) & self.allowed[present].all(axis=0)
        fitting = np.flatnonzero(holds)
        return MachineTypeIndex(int(fitting[np.argmin(self.prices[fitting])])) if fitting.size else NO_TYPE

    def cheapest_types(self, loads: Ints) -> Ints:
        """[load], as `cheapest_type` for each of several loads ([load, item])."""
        # holds: [load, type]. A load may not run where any of its items may not.
        used = loads @ self.requests
        holds = ~meeting(loads > 0, ~self.allowed)
        for wanted, offered in zip(used.T, self.capacity.T, strict=True):
            holds &= wanted[:, None] <= offered[None, :]
        cheapest: Ints = np.where(holds, self.prices, np.iinfo(np.int64).max).argmin(axis=1)
        return np.where(holds.any(axis=1), cheapest, NO_TYPE)

    def is_capped(self) -> Bools:
        """[item], whether a cap keeps its pods off some machine that has capacity for them."""
        fits_fewer: Bools = (self.fit > 0) & (self.fit < _fit(self.requests, self.capacity))
        return np.array(fits_fewer.any(axis=1))

    def undominated(self) -> Ints:
        """Return the types worth buying: some item fits, and no type that costs no more offers as much to the same items."""
        # The order (price, most capacity, index) is total, so of two equal types exactly one comes first. Types with the same
        # capacity that the same items fit are a class, of which only the first is worth buying: classes are numbered by their
        # first types. Which items fit is compared on packed bits: pattern a covers b where a AND b = b.
        # items: [type in order, byte], patterns: [pattern, byte], covers: [pattern, pattern], first: [class].
        order = np.lexsort((np.arange(len(self.prices)), -self.capacity.sum(axis=1), self.prices))
        fits = self.fit.T[order] > 0
        order, fits = order[fits.any(axis=1)], fits[fits.any(axis=1)]
        items = np.packbits(fits, axis=1)
        different, pattern = numbered_rows(items)
        patterns = items[different]
        covers: Bools = np.zeros((len(patterns), len(patterns)), dtype=np.bool_)
        for row, row_pattern in enumerate(patterns):
            covers[row] = ((row_pattern & patterns) == patterns).all(axis=1)
        first, _ = numbered_rows(np.column_stack([self.capacity[order], pattern]))
        capacity, pattern = self.capacity[order[first]], pattern[first]
        # What a beaten class beats, its better beats too: each part of the classes is compared with the best of those before,
        # since all pairs of thousands of classes would take seconds and gigabytes. √n parts have √n classes each.
        # beats[a, b]: class a comes before b, covers b's pattern and offers no less of any resource.
        best = np.zeros(0, dtype=np.int64)
        for part in np.array_split(np.arange(len(first)), math.isqrt(len(first)) or 1):
            compared = np.concatenate([best, part])
            beats = covers[np.ix_(pattern[compared], pattern[part])] & (compared[:, None] < part[None, :])
            for offered in capacity.T:
                beats &= offered[compared][:, None] >= offered[part][None, :]
            best = np.concatenate([best, part[~beats.any(axis=0)]])
        return np.sort(order[first[best]])

    def restricted(self, types: Ints) -> PackingProblem:
        """Return the problem with these types only, numbered in the given order."""
        return PackingProblem(
            self.requests,
            self.counts,
            self.capacity[types],
            self.prices[types],
            self.allowed[:, types],
            self.fit[:, types],
        )

    def with_capacity(self, types: Ints, capacity: Ints) -> PackingProblem:
        """Return the problem with these types only, each with the given capacity, which is at most its own."""
        fit = np.minimum(self.fit[:, types], _fit(self.requests, capacity))
        return PackingProblem(self.requests, self.counts, capacity, self.prices[types], self.allowed[:, types], fit)

    def of_items(self, items: Ints, counts: Ints) -> PackingProblem:
        """Return the problem with these items only, and this many pods of each."""
        return PackingProblem(
            self.requests[items], counts, self.capacity, self.prices, self.allowed[items], self.fit[items]
        )


class Packing(msgspec.Struct, frozen=True, eq=False):
    """Machines and what each holds.

    Attributes:
        types: [machine], its type.
        loads: [machine, item], how many pods of each item it holds.
    """

    types: Ints
    loads: Ints

    def cost(self, problem: PackingProblem) -> int:
        """Nano-dollars per hour."""
        return int(problem.prices[self.types].sum())

    def check(self, problem: PackingProblem) -> None:
        """Recheck the packing in integers: an error of the floating-point stages must not be launched.

        Raises:
            InvariantError: If a machine is overfull, holds what it may not, or a pod is missing or packed twice.
        """
        invariant(bool((self.loads.sum(axis=0) == problem.counts).all()), "every pod is packed exactly once")
        invariant(bool((self.loads @ problem.requests <= problem.capacity[self.types]).all()), "no machine is overfull")
        invariant(bool((self.loads <= problem.fit[:, self.types].T).all()), "no machine holds what it may not")


def joined(parts: list[Packing], *, items: int) -> Packing:
    """Return several packings of the same `items` items as one."""
    if not parts:
        return Packing(np.zeros(0, dtype=np.int64), np.zeros((0, items), dtype=np.int64))
    return Packing(np.concatenate([p.types for p in parts]), np.concatenate([p.loads for p in parts]))


def right_sized(problem: PackingProblem, packing: Packing) -> Packing:
    """Return the same loads, each on the cheapest type that holds it; types are numbered as in `problem`."""
    first, number = numbered_rows(packing.loads)
    return Packing(problem.cheapest_types(packing.loads[first])[number], packing.loads)


def merged_offers(prices: Ints, capacity: Ints, allowed: Sequence[Bools]) -> tuple[Ints, Bools]:
    """Return one type of each price and capacity, in this order, and [item, type], whether any type like it allows the item.

    Args:
        prices: [type].
        capacity: [type, resource].
        allowed: [item, type] in parts that together have all types: as a whole, it may be too large.
    """
    number = ranked_rows(np.column_stack([prices, capacity]).astype(">i8"))
    first = np.unique(number, return_index=True)[1]
    merged = np.zeros((len(first), len(allowed[0])), dtype=np.bool_)
    ends = np.cumsum([part.shape[1] for part in allowed])
    for part, numbers in zip(allowed, np.split(number, ends[:-1]), strict=True):
        np.logical_or.at(merged, numbers, part.T)
    return first, merged.T


def numbered_rows(rows: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return where each different row first is, and for each row the number of its like, in the order of appearance."""
    numbers: dict[bytes, int] = {}
    number = np.array([numbers.setdefault(row, len(numbers)) for row in bytes_of_rows(rows)], dtype=np.int64)
    return np.unique(number, return_index=True)[1], number


def ranked_rows(rows: NDArray[np.integer]) -> Ints:
    """[row], the rank of each row among the different rows in the order of their bytes."""
    every = bytes_of_rows(rows)
    ranks = {row: rank for rank, row in enumerate(sorted(set(every)))}
    return np.array([ranks[row] for row in every], dtype=np.int64)


def bytes_of_rows(rows: NDArray[np.integer]) -> list[bytes]:
    """Return the bytes of each row: equal for equal rows of one type of number."""
    # One copy of the whole array, cut into rows, takes a fifth of the time of a copy of each row.
    width, whole = rows.shape[1] * rows.itemsize, rows.tobytes()
    return [whole[start : start + width] for start in range(0, len(whole), width)] if width else [b""] * len(rows)


def distinct_loads(loads: Ints) -> Ints:
    """[load, item], the different rows in the order of their amounts, as `np.unique` along an axis in a tenth of its time."""
    # Amounts are not negative, so big-endian bytes are in the order of the numbers.
    different = sorted(set(bytes_of_rows(loads.astype(">i8"))))
    return np.frombuffer(b"".join(different), dtype=">i8").reshape(len(different), loads.shape[1]).astype(np.int64)


def meeting(rows: Bools, columns: Bools) -> Bools:
    """[row, column], whether some position is true in both ([row, position], [position, column]).

    It is a matrix product in float32, which is the fast one, and exact for fewer than 2^24 positions. Zeros and ones make no
    invalid number; yet the processor's flag for one has been seen raised, once in some ten thousand plans, and is ignored.
    """
    with np.errstate(invalid="ignore"):
        common: Bools = rows.astype(np.float32) @ columns.astype(np.float32) > 0
    return common


def largest_first(requests: Ints, capacity: Ints) -> Ints:
    """[item], indexes by the largest share of `capacity` ([resource]) that one pod takes, ties to the lower index."""
    share = (requests / np.maximum(capacity, 1)).max(axis=1)
    return np.argsort(-share, kind="stable")


def distributed(amount: int, places: Ints) -> Ints:
    """Return [place], how many of `amount` pods go to each place; `places` is the room of each, and the first are filled."""
    # filled(k) = min(places[0] + … + places[k], amount) pods sit in the first k + 1 places; its differences are the shares.
    filled = np.minimum(np.cumsum(places), amount)
    filled[1:] -= filled[:-1].copy()
    return filled


def _fit(requests: Ints, capacity: Ints) -> Ints:
    # fit[i, t] = min over resources r with requests[i, r] > 0 of ⌊capacity[t, r] / requests[i, r]⌋, at least 0;
    # requests: [item, resource], capacity: [type, resource]. An item that requests nothing fits without end.
    unlimited = np.iinfo(np.int64).max
    fit = np.full((len(requests), len(capacity)), unlimited)
    for wanted, offered in zip(requests.T, capacity.T, strict=True):
        # Few distinct requests and capacities of a resource occur, and division is slow: each pair is divided once.
        amounts, of_item = np.unique(wanted, return_inverse=True)
        rooms, of_type = np.unique(offered, return_inverse=True)
        if amounts.any():
            ratios = np.where(amounts[:, None] > 0, rooms // np.maximum(amounts, 1)[:, None], unlimited)
            np.minimum(fit, ratios[of_item][:, of_type], out=fit)
    amounts_held: Ints = np.maximum(fit, 0)
    return amounts_held


# Linear programs for HiGHS, from numpy arrays: one builder for all of them.
#
# Every program is silent, runs on one thread and has a fixed seed, so that it gives the same result in every process.


Int32s = NDArray[np.int32]

UNBOUNDED = highspy.kHighsInf
"""A bound that never binds."""

_LENGTHY: Final = ("mip_heuristic_run_feasibility_jump", "mip_detect_symmetry", "mip_allow_restart")
"""Options of HiGHS that take most of the time of a small integer program and find nothing more there."""


class LpRows(msgspec.Struct, frozen=True, eq=False):
    """Constraints: lower ≤ (A x) ≤ upper.

    Attributes:
        lower: [row].
        upper: [row].
    """

    lower: Floats
    upper: Floats

    @classmethod
    def at_least(cls, lower: Floats) -> LpRows:
        """Covering rows."""
        return cls(lower, np.full(len(lower), UNBOUNDED))

    @classmethod
    def at_most(cls, upper: Floats) -> LpRows:
        """Capacity rows."""
        return cls(np.full(len(upper), -UNBOUNDED), upper)


class LpColumns(msgspec.Struct, frozen=True, eq=False):
    """Variables 0 ≤ x ≤ upper with their costs and coefficients, compressed by column.

    Attributes:
        costs: [column].
        upper: [column].
        starts: [column + 1], where each column's coefficients begin; the last entry is how many there are in all.
        rows: [coefficient], the row of each.
        coefficients: [coefficient].
    """

    costs: Floats
    upper: Floats
    starts: Int32s
    rows: Int32s
    coefficients: Floats

    @classmethod
    def dense(cls, costs: Floats, matrix: Floats) -> LpColumns:
        """Columns without an upper bound from a dense `matrix`, [column, row]; zeros are left out."""
        column, row = np.nonzero(matrix)
        starts = np.searchsorted(column, np.arange(len(costs) + 1)).astype(np.int32)
        return cls(costs, np.full(len(costs), UNBOUNDED), starts, row.astype(np.int32), matrix[column, row])


class Coefficients:
    """Collects the coefficients of a sparse matrix, in any order; each place is given once."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ints, Ints, Floats]] = []

    def put(self, rows: Ints, columns: Ints, values: Floats | float) -> None:
        """Add coefficients; the three are broadcast against each other."""
        row, column, value = np.broadcast_arrays(rows, columns, np.asarray(values, dtype=float))
        self._parts.append((row.ravel(), column.ravel(), value.ravel()))

    def columns(self, costs: Floats, upper: Floats) -> LpColumns:
        """Return the matrix by column."""
        # Compressed sparse columns: the coefficients of column j are entries starts[j] to starts[j + 1], where
        # starts[j] = Σ_{k < j} (number of coefficients of column k); within a column they are in order of rows.
        row, column, value = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        order = np.lexsort((row, column))
        starts = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=len(costs)))]).astype(np.int32)
        return LpColumns(costs, upper, starts, row[order].astype(np.int32), value[order])


class IntegerLimits(msgspec.Struct, frozen=True):
    """When a mixed-integer search stops.

    Attributes:
        gap_relative: Distance of the best solution from the bound that is good enough.
        nodes_max: Most nodes of the branch-and-bound tree.
        is_small: Whether the program is so small that restarts, symmetry and jumps are left out: a third of the time remains.
    """

    gap_relative: float
    nodes_max: int
    is_small: bool = False


class LinearProgram:
    """Minimise costs · x subject to lower ≤ A x ≤ upper and 0 ≤ x ≤ x_upper; solved again from its last basis."""

    def __init__(
        self,
        rows: LpRows,
        columns: LpColumns | None = None,
        *,
        presolve: bool = True,
        integer: IntegerLimits | None = None,
    ) -> None:
        """Build the program.

        Args:
            rows: Its constraints.
            columns: Its variables; without any, `add_columns` adds them.
            presolve: Whether HiGHS simplifies the program first. It discards the basis: leave it out of repeated solving.
            integer: With limits, every variable is integral.
        """
        columns = LpColumns.dense(np.zeros(0), np.zeros((0, 0))) if columns is None else columns
        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(columns.costs), len(rows.lower)
        model.col_cost_, model.col_lower_, model.col_upper_ = columns.costs, np.zeros(len(columns.costs)), columns.upper
        model.row_lower_, model.row_upper_ = rows.lower, rows.upper
        model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        model.a_matrix_.start_, model.a_matrix_.index_ = columns.starts, columns.rows
        model.a_matrix_.value_ = columns.coefficients
        self._solver = _solver(presolve=presolve)
        self._is_primal = False
        if integer is not None:
            model.integrality_ = [highspy.HighsVarType.kInteger] * len(columns.costs)
            self._solver.setOptionValue("mip_rel_gap", integer.gap_relative)
            self._solver.setOptionValue("mip_max_nodes", integer.nodes_max)
            for option in _LENGTHY if integer.is_small else ():
                self._solver.setOptionValue(option, False)
        self._solver.passModel(model)

    def add_columns(self, columns: LpColumns) -> None:
        """Add variables; the basis stays."""
        count, none = len(columns.costs), np.zeros(len(columns.costs))
        begins, entries = columns.starts[:-1], len(columns.rows)
        self._solver.addCols(
            count, columns.costs, none, columns.upper, entries, begins, columns.rows, columns.coefficients
        )

    def set_rows(self, rows: LpRows) -> None:
        """Change the bounds of all rows."""
        index = np.arange(len(rows.lower), dtype=np.int32)
        self._solver.changeRowsBounds(len(index), index, rows.lower, rows.upper)  # type: ignore[attr-defined]  # missing in its stubs

    def set_costs(self, costs: Floats) -> None:
        """Change the costs of all columns."""
        index = np.arange(len(costs), dtype=np.int32)
        self._solver.changeColsCost(len(index), index, costs)

    def set_upper(self, upper: Floats) -> None:
        """Change the upper bounds of all columns."""
        index = np.arange(len(upper), dtype=np.int32)
        self._solver.changeColsBounds(len(index), index, np.zeros(len(upper)), upper)

    def solve(self, *, is_feasible: bool = False) -> None:
        """Solve to optimality, without a time limit: with one, the clock would decide the result.

        `is_feasible`: whether the last solution still is one, as after `add_columns`. The primal simplex then continues from
        it, without perturbed bounds. The dual simplex, which is used otherwise, cannot: the duals are no longer feasible.
        Without perturbation the primal simplex may turn in circles where many bases are equally good; it is given up after
        `PRIMAL_ITERATIONS_MAX`, and the dual one begins.
        """
        if is_feasible != self._is_primal:
            self._is_primal = is_feasible
            strategies = highspy.simplex_constants.SimplexStrategy
            strategy = strategies.kSimplexStrategyPrimal if is_feasible else strategies.kSimplexStrategyDual
            self._solver.setOptionValue("simplex_strategy", int(strategy))
            self._solver.setOptionValue("primal_simplex_bound_perturbation_multiplier", 0.0 if is_feasible else 1.0)
            iterations_max = PRIMAL_ITERATIONS_MAX if is_feasible else highspy.kHighsIInf
            self._solver.setOptionValue("simplex_iteration_limit", iterations_max)
        self._solver.run()
        if is_feasible and self._solver.getModelStatus() == highspy.HighsModelStatus.kIterationLimit:
            self.solve()

    def has_solution(self) -> bool:
        """Whether the constraints can be met; if not, `column_values` may still return where the solver ended."""
        return bool(self._solver.getSolution().value_valid)

    def column_values(self) -> Floats:
        """[column], the solution."""
        return np.array(self._solver.getSolution().col_value)

    def row_duals(self) -> Floats:
        """[row], the rise of the optimum per unit by which the row's binding bound rises."""
        return np.array(self._solver.getSolution().row_dual)

    def integer_bound(self) -> float:
        """A lower bound on the cost of every integral solution; only for programs with integer limits."""
        return float(self._solver.getInfo().mip_dual_bound)


def _solver(*, presolve: bool) -> highspy.Highs:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]  # highspy says nothing of its types
    for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 0)):
        solver.setOptionValue(option, value)
    if not presolve:
        solver.setOptionValue("presolve", "off")
    return solver


# The cheapest whole machines, for plans of so few that the fluid relaxation, which buys parts of machines, is weak.
#
# A few machines' prices seldom add up to the fluid relaxation's optimum. The least cost of whole machines that offer what all
# pods request together bounds every packing: pods may be split and may run anywhere.


def whole_machines(
    problem: PackingProblem, *, cost: int, spare_share: float = 0.0, settings: WholeMachineSettings
) -> tuple[int, Ints]:
    """Return a lower bound on the cost of every packing, and the cheapest machines found ([machine], types; may be empty).

    Args:
        problem: The pods and all types that might hold them.
        cost: The cost of a known packing, which the bound does not exceed: types that only costlier packings use are left out.
        spare_share: The share of each resource that machines must offer beside what pods request; any but zero voids the bound.
        settings: When the integer program ends.
    """
    # Minimise Σ_t price[t] y[t] subject to Σ_t capacity[t, r] y[t] ≥ Σ_i counts[i] requests[i, r] for every resource r and
    # integers y ≥ 0. Rows are scaled to one, and prices to at most one.
    total = problem.counts @ problem.requests
    requested = np.flatnonzero(total)
    shares = problem.capacity[:, requested] / total[requested]
    unit = float(problem.prices.max())
    prices = problem.prices / unit
    fractional = LinearProgram(LpRows.at_least(np.ones(len(requested))), LpColumns.dense(prices, shares))
    fractional.solve()
    # Duals u ≥ 0 with shares · u ≤ price: any whole machines cost at least Σ_r u[r], and with a machine of type t at least
    # its reduced cost, price[t] - shares[t] · u, more.
    duals = np.maximum(fractional.row_duals(), 0)
    reduced_costs = prices - shares @ duals
    may_save = np.flatnonzero(duals.sum() + reduced_costs <= cost / unit)
    if not may_save.size:
        return cost, may_save
    limits = IntegerLimits(gap_relative=settings.gap_relative, nodes_max=settings.nodes_max, is_small=True)
    rows = LpRows.at_least(np.full(len(requested), 1.0 + spare_share))
    program = LinearProgram(rows, LpColumns.dense(prices[may_save], shares[may_save]), integer=limits)
    program.solve()
    numbers = (
        np.rint(program.column_values()).astype(np.int64) if program.has_solution() else np.zeros(len(may_save), int)
    )
    bound = min(cost, int(program.integer_bound() * unit * (1 - settings.slack_relative)))
    return bound, np.repeat(may_save, numbers)
