"""The packing problem as arrays, and a packing as types with loads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import invariant

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Classes of equal pods, and types of machine to put them on.

    Attributes:
        requests: [class, resource], what one pod takes.
        counts: [class], how many pods there are.
        room: [type, resource], what a machine offers to pods.
        prices: [type], nano-dollars per hour, above zero.
        allowed: [class, type], whether the pod may run there.
        fit: [class, type], how many pods of the class fit a machine that holds nothing else.
    """

    requests: Ints
    counts: Ints
    room: Ints
    prices: Ints
    allowed: Bools
    fit: Ints

    @classmethod
    def of(
        cls, *, requests: Ints, counts: Ints, room: Ints, prices: Ints, allowed: Bools, most: Ints | None = None
    ) -> Problem:
        """Build one from its attributes; `fit` follows from the others.

        `most` is [class], the most pods of it on one machine whatever its room; zero for any number.

        Raises:
            InvariantError: If a class fits no type.
        """
        fit = np.where(allowed, _fit(requests, room), 0)
        if most is not None:
            fit = np.where(most[:, None] > 0, np.minimum(fit, most[:, None]), fit)
        invariant(bool((fit.max(axis=1, initial=0) > 0).all()), "every class fits some type")
        return cls(requests, counts, room, prices, allowed, fit)

    def cheapest(self, load: Ints) -> int:
        """The cheapest type that holds this load (pods by class), ties to the lower number; -1 where none does."""
        present = np.flatnonzero(load)
        holds = (self.room >= load @ self.requests).all(axis=1) & self.allowed[present].all(axis=0)
        fitting = np.flatnonzero(holds)
        return int(fitting[np.argmin(self.prices[fitting])]) if fitting.size else -1

    def is_capped(self) -> Bools:
        """[class], whether a machine somewhere gets fewer of its pods than have room there."""
        fits_fewer: Bools = (self.fit > 0) & (self.fit < _fit(self.requests, self.room))
        return np.array(fits_fewer.any(axis=1))

    def undominated(self) -> Ints:
        """Types worth buying: some class fits, and no other type costs no more, offers no less and takes no fewer classes."""
        fits = self.fit > 0
        patterns, inverse = np.unique(np.packbits(fits.T, axis=1), axis=0, return_inverse=True)
        pattern = inverse.ravel()
        covers: Bools = np.array([((one & patterns) == patterns).all(axis=1) for one in patterns])
        order = np.lexsort((np.arange(len(self.prices)), -self.room.sum(axis=1), self.prices))
        rank = np.argsort(order, kind="stable")
        beats = (rank[:, None] < rank[None, :]) & covers[pattern][:, pattern]
        for column in self.room.T:
            beats &= column[:, None] >= column[None, :]
        return np.flatnonzero(fits.any(axis=0) & ~beats.any(axis=0))

    def restricted(self, types: Ints) -> Problem:
        """The same pods with these types only."""
        return Problem(
            self.requests,
            self.counts,
            self.room[types],
            self.prices[types],
            self.allowed[:, types],
            self.fit[:, types],
        )

    def with_room(self, types: Ints, room: Ints) -> Problem:
        """The same pods with these types only, each with less room than it has."""
        fit = np.minimum(self.fit[:, types], _fit(self.requests, room))
        return Problem(self.requests, self.counts, room, self.prices[types], self.allowed[:, types], fit)

    def of_classes(self, classes: Ints, counts: Ints) -> Problem:
        """The same types with so many pods of these classes only."""
        return Problem(self.requests[classes], counts, self.room, self.prices, self.allowed[classes], self.fit[classes])


@dataclass(frozen=True, slots=True, eq=False)
class Packing:
    """Machines and what each holds.

    Attributes:
        types: [machine], its type.
        loads: [machine, class], how many pods of each class it holds.
    """

    types: Ints
    loads: Ints

    def cost(self, problem: Problem) -> int:
        """Nano-dollars per hour."""
        return int(problem.prices[self.types].sum())

    def check(self, problem: Problem) -> None:
        """Recheck everything in integers.

        Raises:
            InvariantError: If a machine is overfull, holds what it may not, or a pod is missing or there twice.
        """
        invariant(bool((self.loads.sum(axis=0) == problem.counts).all()), "every pod is packed exactly once")
        invariant(bool((self.loads @ problem.requests <= problem.room[self.types]).all()), "no machine is overfull")
        invariant(bool((self.loads <= problem.fit[:, self.types].T).all()), "no machine holds what it may not")


def joined(parts: list[Packing], classes: int) -> Packing:
    """Several packings as one."""
    if not parts:
        return Packing(np.zeros(0, dtype=np.int64), np.zeros((0, classes), dtype=np.int64))
    return Packing(np.concatenate([p.types for p in parts]), np.concatenate([p.loads for p in parts]))


def resized(problem: Problem, packing: Packing) -> Packing:
    """The same loads, each on the cheapest type that holds it; types are numbered as in `problem`."""
    cheapest: dict[bytes, int] = {}
    for load in packing.loads:
        if (key := load.tobytes()) not in cheapest:
            cheapest[key] = problem.cheapest(load)
    kinds = [cheapest[load.tobytes()] for load in packing.loads]
    return Packing(np.array(kinds, dtype=np.int64), packing.loads)


def _fit(requests: Ints, room: Ints) -> Ints:
    most = np.full((len(requests), len(room)), np.iinfo(np.int64).max)
    for r in range(requests.shape[1]):
        wanted = requests[:, r][:, None]
        most = np.where(wanted > 0, np.minimum(most, room[:, r][None, :] // np.maximum(wanted, 1)), most)
    held: Ints = np.maximum(most, 0)
    return held
