"""Resource vectors as tuples over a fixed order of names, which are compared millions of times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import add, le, sub

from core.model.values.quantity import CPU, MEMORY

Vector = tuple[int, ...]


class ResourceAxis:
    """The resources that anything in this snapshot requests. Other resources never affect a decision.

    CPU and memory come first, the others by name: searches weigh the first two against each other, for these are the ones that
    nodes run short of.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(set(names), key=lambda name: (name not in (CPU, MEMORY), name)))
        self.zero: Vector = (0,) * len(self.names)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """Return the amounts in order, zero for missing names."""
        return tuple(map(amounts.get, self.names, self.zero))

    def total(self, vectors: Iterable[Vector]) -> Vector:
        """Return the sum; zero for no vectors."""
        return tuple(map(sum, zip(self.zero, *vectors, strict=True)))

    def amounts(self, vector: Vector) -> dict[str, int]:
        """Return a vector as a mapping, without zeros."""
        return {name: amount for name, amount in zip(self.names, vector, strict=True) if amount}


def plus(left: Vector, right: Vector) -> Vector:
    """The sum."""
    return tuple(map(add, left, right))


def minus(left: Vector, right: Vector) -> Vector:
    """Return the difference, which may be negative."""
    return tuple(map(sub, left, right))


def within(requested: Vector, available: Vector) -> bool:
    """Whether every amount is available."""
    return all(map(le, requested, available))


def pareto(vectors: Iterable[Vector]) -> tuple[Vector, ...]:
    """Return the Pareto-maximal vectors: requests that fit any vector fit one of these."""
    front: list[Vector] = []
    for vector in sorted(set(vectors), reverse=True):
        # Inlined from `within`: a plan needs the front of every set of types, each of some hundred vectors.
        for kept in front:
            if all(map(le, vector, kept)):
                break
        else:
            front.append(vector)
    return tuple(front)
