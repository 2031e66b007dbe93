"""Columns of the master problem: a load on a machine of a type, bought any number of times."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from core.packing.problem import NO_TYPE, Ints, Packing, PackingProblem, bytes_of_rows


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

    def keys(self) -> Iterator[tuple[int, bytes]]:
        """The identity of each column."""
        yield from zip(self.types.tolist(), bytes_of_rows(self.loads), strict=True)

    def __len__(self) -> int:
        return len(self.types)
