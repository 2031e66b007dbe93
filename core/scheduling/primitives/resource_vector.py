"""Resource vectors as tuples over a fixed order of names: what is compared millions of times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import add, le, sub

Vector = tuple[int, ...]


class ResourceAxis:
    """The resources that anything in this snapshot requests, in order of name. Other resources never affect a decision."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(sorted(set(names)))
        self.zero: Vector = (0,) * len(self.names)

    def vector(self, amounts: Mapping[str, int]) -> Vector:
        """The amounts in order, zero where there is none."""
        return tuple(map(amounts.get, self.names, self.zero))

    def total(self, vectors: Iterable[Vector]) -> Vector:
        """The sum, zero of nothing."""
        return tuple(map(sum, zip(self.zero, *vectors, strict=True)))

    def amounts(self, vector: Vector) -> dict[str, int]:
        """A vector as a mapping again, without zeros."""
        return {name: amount for name, amount in zip(self.names, vector, strict=True) if amount}


def plus(left: Vector, right: Vector) -> Vector:
    """The sum."""
    return tuple(map(add, left, right))


def minus(left: Vector, right: Vector) -> Vector:
    """The difference; may go below zero."""
    return tuple(map(sub, left, right))


def within(requested: Vector, available: Vector) -> bool:
    """Whether every amount is there."""
    return all(map(le, requested, available))


def least(vectors: Iterable[Vector]) -> Vector | None:
    """The smallest amount of each resource, None of nothing."""
    rows = list(vectors)
    return tuple(map(min, zip(*rows, strict=True))) if rows else None


def pareto(vectors: Iterable[Vector]) -> tuple[Vector, ...]:
    """The vectors that no other one exceeds everywhere: whatever fits one of all fits one of these."""
    front: list[Vector] = []
    for vector in sorted(set(vectors), reverse=True):
        if not any(within(vector, kept) for kept in front):
            front.append(vector)
    return tuple(front)
