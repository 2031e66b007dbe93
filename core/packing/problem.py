"""The packing problem as arrays, and a packing as machines with loads.

In the terms of operations research this is vector bin packing with several bin types: an *item* is a group of interchangeable
pods (`counts` says how many), a *type* is a type of machine with a price, and a *load* is what one machine holds.
"""

from __future__ import annotations

from typing import Final, NewType

import msgspec
import numpy as np
from numpy.typing import NDArray

from core.errors import invariant

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
        # holds: [load, type]. A load may not run where any of its items may not: present · not allowed > 0, in floating point,
        # whose matrix product is the fast one; it is exact for such counts.
        used = loads @ self.requests
        holds = (loads > 0).astype(np.float32) @ (~self.allowed).astype(np.float32) == 0
        for wanted, offered in zip(used.T, self.capacity.T, strict=True):
            holds &= wanted[:, None] <= offered[None, :]
        found: Ints = np.where(holds, self.prices, np.iinfo(np.int64).max).argmin(axis=1)
        return np.where(holds.any(axis=1), found, NO_TYPE)

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
        for row, one in enumerate(patterns):
            covers[row] = ((one & patterns) == patterns).all(axis=1)
        first, _ = numbered_rows(np.column_stack([self.capacity[order], pattern]))
        # beats[a, b]: class a comes before b, covers b's pattern and offers no less of any resource.
        beats = np.triu(covers[np.ix_(pattern[first], pattern[first])], k=1)
        for offered in self.capacity[order[first]].T:
            beats &= offered[:, None] >= offered[None, :]
        return np.sort(order[first[~beats.any(axis=0)]])

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


def numbered_rows(rows: NDArray[np.integer]) -> tuple[Ints, Ints]:
    """Return where each different row first is, and for each row the number of its like, in the order of appearance."""
    numbers: dict[bytes, int] = {}
    number = np.array([numbers.setdefault(row, len(numbers)) for row in bytes_of_rows(rows)], dtype=np.int64)
    return np.unique(number, return_index=True)[1], number


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
