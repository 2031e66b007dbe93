"""Keeps launches flexible: machines are planned as small as the smallest of a bundle of types that cost about the same.

A load that fits such a machine fits every type of the bundle, so a launch can fall back on any of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from core.packing.problem import Bools, Floats, Ints, MachineTypeIndex, PackingProblem, numbered_rows
from core.packing.search_settings import LaunchFlexibilitySettings


class DistinctValues(msgspec.Struct, frozen=True):
    """How many values of one label the types that hold a load must have (minValues of a NodePool).

    Attributes:
        values: [type], the values of the label that the type has.
        values_min: How many different ones a bundle must have.
    """

    values: Sequence[Sequence[str]]
    values_min: int


def bundled(problem: PackingProblem, settings: LaunchFlexibilitySettings) -> PackingProblem | None:
    """Return the problem with each type as small as its bundle; None if some item then fits nowhere.

    Types without a bundle are left out, unless some item fits no other type.
    """
    reduced = _kept(problem, *_bundle_capacity(problem, settings))
    return reduced if (reduced.fit.max(axis=1, initial=0) > 0).all() else None


def with_distinct_values(problem: PackingProblem, wanted: Sequence[DistinctValues]) -> PackingProblem:
    """Return the problem with each type's capacity reduced until types with enough different values have that capacity too.

    If some item then fits nowhere, the problem is returned unchanged.
    """
    # For each type t, the types that admit every item of t come by how little smaller they are (t itself first). The nearest
    # that bring enough different values are chosen: capacity[t, r] = min over them of their capacity[r].
    (shares, sizes), (covers, patterns) = _smaller_shares(problem), _covers(problem)
    smaller = np.where(covers[np.ix_(patterns, patterns)], shares[np.ix_(sizes, sizes)], np.inf)
    capacity, is_met = problem.capacity.copy(), np.zeros(len(problem.prices), dtype=np.bool_)
    for row, nearest in enumerate(np.argsort(smaller, axis=1, kind="stable")):
        possible = nearest[: int((smaller[row] < np.inf).sum())].tolist()
        chosen = [MachineTypeIndex(row)]
        is_met[row] = all(_choose_nearest(one, possible, chosen) for one in wanted)
        capacity[row] = problem.capacity[chosen].min(axis=0)
    reduced = _kept(problem, capacity, is_met)
    return reduced if (reduced.fit.max(axis=1, initial=0) > 0).all() else problem


def _choose_nearest(
    wanted: DistinctValues, nearest: Sequence[MachineTypeIndex], chosen: list[MachineTypeIndex]
) -> bool:
    """Add the nearest types that bring a new value to `chosen` until there are enough, and return whether there are."""
    found = {value for one in chosen for value in wanted.values[one]}
    for candidate in nearest:
        if len(found) >= wanted.values_min:
            break
        if not found.issuperset(wanted.values[candidate]):
            found.update(wanted.values[candidate])
            chosen.append(candidate)
    return len(found) >= wanted.values_min


def _kept(problem: PackingProblem, capacity: Ints, is_bundle: Bools) -> PackingProblem:
    """Return the types with a bundle, at its capacity, and those of the others that some item needs."""
    kept = np.flatnonzero(is_bundle)
    fits_none = problem.with_capacity(kept, capacity[kept]).fit.max(axis=1, initial=0) == 0
    more = np.flatnonzero(~is_bundle & (problem.fit[fits_none] > 0).any(axis=0))
    capacity[more] = problem.capacity[more]
    kept = np.union1d(kept, more)
    return problem.with_capacity(kept, capacity[kept])


def _bundle_capacity(problem: PackingProblem, settings: LaunchFlexibilitySettings) -> tuple[Ints, Bools]:
    """Return [type, resource], the capacity that the whole bundle of a type has, and [type], whether it has a bundle."""
    count = settings.bundle_types
    if len(problem.prices) < count:
        return problem.capacity.copy(), np.zeros(len(problem.prices), dtype=np.bool_)
    # Another type may join the bundle of t where it admits every item that t does, costs at most ratio · price[t], and is
    # smaller by at most smaller_share_max in any resource. The bundle is the `count` nearest, t itself (distance 0) among them,
    # and its capacity the minimum over it. Types that differ in their price alone have the same others in the same order.
    # others: [other], is_cheap and place: [type, other], nearest: [type, count].
    (shares, sizes), (covers, patterns) = _smaller_shares(problem), _covers(problem)
    capacity, is_bundle = problem.capacity.copy(), np.zeros(len(problem.prices), dtype=np.bool_)
    first, like = numbered_rows(np.column_stack([sizes, patterns]))
    prices, price_max = problem.prices, settings.bundle_price_ratio_max * problem.prices
    for number, one in enumerate(first):
        smaller = shares[sizes[one], sizes]
        others = np.flatnonzero((smaller <= settings.smaller_share_max) & covers[patterns[one], patterns])
        others = others[np.argsort(smaller[others], kind="stable")]
        types = np.flatnonzero(like == number)
        is_cheap = prices[others][None, :] <= price_max[types][:, None]
        place = np.cumsum(is_cheap, axis=1)
        has_enough = is_cheap.sum(axis=1) >= count
        nearest = others[np.nonzero((is_cheap & (place <= count))[has_enough])[1].reshape(-1, count)]
        types = types[has_enough]
        is_bundle[types] = True
        capacity[types] = np.minimum(problem.capacity[nearest].min(axis=1), problem.capacity[types])
    return capacity, is_bundle


def _smaller_shares(problem: PackingProblem) -> tuple[Floats, Ints]:
    """[size, other], by which share the other is smaller in its relatively smallest resource (0 if it is no smaller).

    The second result is [type], its size: types with equal capacities have one.
    """
    # max over resources of 1 - capacity[other, r] / capacity[size, r], at least 0; resources that do not differ add nothing.
    first, sizes = numbered_rows(problem.capacity)
    shares = np.zeros((len(first), len(first)))
    for offered in problem.capacity[first].T.astype(float):
        if offered.min() < offered.max():
            np.maximum(shares, 1.0 - offered[None, :] / np.maximum(offered[:, None], 1.0), out=shares)
    return shares, sizes


def _covers(problem: PackingProblem) -> tuple[Bools, Ints]:
    """[pattern, other], whether the other admits every item that the pattern does.

    The second result is [type], its pattern: types that admit the same items have one.
    """
    # a ≤ b means that b admits all that a does. admits: [item, pattern].
    first, patterns = numbered_rows(np.packbits(problem.allowed.T, axis=1))
    admits = problem.allowed[:, first]
    covers: Bools = np.array([(admits[:, [one]] <= admits).all(axis=0) for one in range(len(first))])
    return covers, patterns
