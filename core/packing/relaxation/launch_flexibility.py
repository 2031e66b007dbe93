"""Leaves a choice: machines are planned as small as the smallest of a bundle of types that cost about the same.

A load that fits such a machine fits every type of the bundle, so a launch can fall back on any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from core.packing.problem import Bools, Floats, Ints, Problem

TYPES: Final = 16
"""Types in a bundle."""

PRICE_BAND: Final = 1.45
"""The dearest of a bundle costs at most so many times what the one costs that it is built around."""

SMALLER_MAX: Final = 0.1
"""By which share the others may be smaller, in any resource."""


Wanted = tuple[Sequence[Sequence[str]], int]
"""[type], its values of one label, and how many different ones a machine's bundle must have."""


def bundled(problem: Problem) -> Problem | None:
    """The problem with each type as small as its bundle, None where some pod then fits nowhere.

    Types without a bundle are left out unless some pod fits no other.
    """
    held = _kept(problem, *_rooms(problem))
    return held if (held.fit.max(axis=1, initial=0) > 0).all() else None


def leaving_values(problem: Problem, wanted: Sequence[Wanted]) -> Problem:
    """The problem with each type as small as it takes for enough types of different values to hold whatever it holds.

    Where some pod then fits nowhere the problem is left as it is.
    """
    smaller = _smaller(problem)
    smaller[~_covers(problem)] = np.inf
    room, is_met = problem.room.copy(), np.zeros(len(problem.prices), dtype=np.bool_)
    for kind, nearest in enumerate(np.argsort(smaller, axis=1, kind="stable")):
        possible = nearest[: int((smaller[kind] < np.inf).sum())].tolist()
        chosen = [kind]
        is_met[kind] = all(_first_with(possible, values, least, chosen) for values, least in wanted)
        room[kind] = problem.room[chosen].min(axis=0)
    held = _kept(problem, room, is_met)
    return held if (held.fit.max(axis=1, initial=0) > 0).all() else problem


def _first_with(nearest: Sequence[int], values: Sequence[Sequence[str]], least: int, chosen: list[int]) -> bool:
    """Choose the first types that bring a new value until there are enough, and say whether there are."""
    found = {value for kind in chosen for value in values[kind]}
    for kind in nearest:
        if len(found) >= least:
            break
        if not found.issuperset(values[kind]):
            found.update(values[kind])
            chosen.append(kind)
    return len(found) >= least


def _kept(problem: Problem, room: Ints, is_bundle: Bools) -> Problem:
    """The types with a bundle at that room, and the others where some pod fits none of them."""
    kept = np.flatnonzero(is_bundle)
    homeless = problem.with_room(kept, room[kept]).fit.max(axis=1, initial=0) == 0
    more = np.flatnonzero(~is_bundle & (problem.fit[homeless] > 0).any(axis=0))
    room[more] = problem.room[more]
    kept = np.union1d(kept, more)
    return problem.with_room(kept, room[kept])


def _rooms(problem: Problem) -> tuple[Ints, Bools]:
    """[type, resource], the room that all of a type's bundle have, and whether there are types enough for one."""
    if len(problem.prices) < TYPES:
        return problem.room.copy(), np.zeros(len(problem.prices), dtype=np.bool_)
    smaller = _smaller(problem)
    smaller[~(_covers(problem) & (problem.prices[None, :] <= PRICE_BAND * problem.prices[:, None]))] = np.inf
    smaller[smaller > SMALLER_MAX] = np.inf
    nearest = np.argsort(smaller, axis=1, kind="stable")[:, :TYPES]
    is_bundle: Bools = np.take_along_axis(smaller, nearest, axis=1).max(axis=1) < np.inf
    return np.minimum(problem.room[nearest].min(axis=1), problem.room), is_bundle


def _smaller(problem: Problem) -> Floats:
    """[type, other], by which share the other is smaller, in the resource where it is the most; zero where it is nowhere."""
    share = np.zeros((len(problem.prices), len(problem.prices)))
    for column in problem.room.T.astype(float):
        if column.min() < column.max():
            np.maximum(share, 1.0 - column[None, :] / np.maximum(column[:, None], 1.0), out=share)
    return share


def _covers(problem: Problem) -> Bools:
    """[type, other], whether the other admits every class that the type does."""
    patterns, inverse = np.unique(np.packbits(problem.allowed, axis=0), axis=1, return_inverse=True)
    who = np.unpackbits(patterns, axis=0, count=len(problem.counts)).astype(np.bool_)
    covers = np.array([(who[:, [one]] <= who).all(axis=0) for one in range(who.shape[1])])
    found: Bools = covers[inverse.ravel()][:, inverse.ravel()]
    return found
