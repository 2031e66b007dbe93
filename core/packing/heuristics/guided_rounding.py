"""Rounds the fluid solution to whole machines. Machines of one type get nearly equal loads, which keep the solution's mix."""

from __future__ import annotations

import math
from itertools import product

import numpy as np

from core.packing.heuristics.value_packing import pack_by_value
from core.packing.problem import (
    Floats,
    Ints,
    ItemIndex,
    MachineTypeIndex,
    Packing,
    PackingProblem,
    distributed,
    joined,
    largest_first,
    right_sized,
)
from core.packing.relaxation.fluid_lp import FluidSolution
from core.packing.search_settings import RoundingSettings, SearchSettings

Cut = tuple[int, ...]
"""How many machines of each type to leave out after the fluid solution is rounded up; only types that it buys enough of."""


class _EqualMachines:
    """Machines of one type while they are filled."""

    def __init__(self, problem: PackingProblem, type_index: MachineTypeIndex, machines: int) -> None:
        self.type_index = type_index
        self.free = np.tile(problem.capacity[type_index], (machines, 1))
        self.loads = np.zeros((machines, len(problem.counts)), dtype=np.int64)

    def room(self, problem: PackingProblem, item: ItemIndex) -> Ints:
        """[machine], how many more pods of the item each machine takes."""
        requests = problem.requests[item]
        requested = np.flatnonzero(requests)
        room: Ints = np.full(len(self.free), problem.counts[item])
        if requested.size:
            room = (self.free[:, requested] // requests[requested]).min(axis=1)
        below_cap: Ints = np.minimum(room, problem.fit[item, self.type_index] - self.loads[:, item])
        return below_cap

    def add(self, problem: PackingProblem, item: ItemIndex, *, machines: Ints, amounts: Ints) -> None:
        """Put this many more pods of the item on each of these machines."""
        self.loads[machines, item] += amounts
        self.free[machines] -= amounts[:, None] * problem.requests[item]


def cuts(fluid: FluidSolution, settings: RoundingSettings) -> list[Cut]:
    """Yield how many machines of each type to leave out after rounding up: none at first, then more.

    Rounding up leaves gaps: a machine that would be a tenth full is better replaced by a smaller one.
    """
    machines = fluid.machines[_support(fluid, settings)]
    step = np.maximum(1, np.rint(machines * settings.cut_step_share)).astype(int)
    combinations = product(range(settings.cut_steps), repeat=min(len(machines), settings.cut_types))
    ordered = sorted(combinations, key=lambda cut: (sum(cut), cut))[: settings.cuts_max]
    most_bought = np.argsort(-machines, kind="stable")
    found = []
    for cut in ordered:
        steps = np.zeros(len(machines), dtype=int)
        steps[most_bought[: len(cut)]] = cut
        found.append(tuple(int(n) for n in steps * step))
    return found


def guided_rounding(
    problem: PackingProblem,
    fluid: FluidSolution,
    cut: Cut,
    *,
    generator: np.random.Generator,
    settings: SearchSettings,
) -> Packing:
    """Round the fluid solution up, less the machines in `cut`; what does not fit is packed by value."""
    support = _support(fluid, settings.rounding)
    shares, left = _whole_pods(problem, fluid.pods[:, support], settings.rounding)
    filled = []
    for column, supported in enumerate(support):
        type_index = MachineTypeIndex(int(supported))
        machines = math.ceil(fluid.machines[supported] - settings.rounding.integrality_tolerance) - cut[column]
        if machines <= 0:
            left += shares[:, column]
            continue
        row = _EqualMachines(problem, type_index, machines)
        for number in largest_first(problem.requests, problem.capacity[supported]):
            if shares[number, column]:
                item, pods = ItemIndex(int(number)), int(shares[number, column])
                left[item] += _spread_evenly(problem, row, item, pods, settings.rounding)
        filled.append(row)
    _into_gaps(problem, filled, left)
    parts = [_bought(problem, row) for row in filled]
    if left.any():
        rest = pack_by_value(
            problem,
            demand=left,
            item_values=fluid.item_values,
            generator=generator,
            settings=settings.value_packing,
        )
        parts.append(rest)
    return joined(parts, items=len(problem.counts))


def _support(fluid: FluidSolution, settings: RoundingSettings) -> Ints:
    """Return the types of which the fluid solution buys enough to guide rounding."""
    found: Ints = np.flatnonzero(fluid.machines > settings.support_machines_min)
    return found


def _whole_pods(problem: PackingProblem, pods: Floats, settings: RoundingSettings) -> tuple[Ints, Ints]:
    """Return fluid amounts ([item, type]) in whole pods, largest remainders rounded up, and [item], the pods left over."""
    # Largest-remainder method: shares = ⌊pods⌋, then one more each for the largest pods - ⌊pods⌋ of an item while any of its
    # counts are left. Items without value may be covered more than once by the program: their amounts are scaled down first.
    covered = np.maximum(pods.sum(axis=1), 1e-9)
    pods = pods * np.minimum(1.0, problem.counts / covered)[:, None]
    whole = np.floor(pods + settings.pod_integrality_tolerance)
    shares = whole.astype(np.int64)
    excess = shares.sum(axis=1) - problem.counts
    for item in np.flatnonzero(excess > 0):
        column = int(np.argmax(shares[item]))
        shares[item, column] -= excess[item]
    left = problem.counts - shares.sum(axis=1)
    remainders = pods - whole
    for item in np.flatnonzero(left > 0):
        for column in np.argsort(-remainders[item], kind="stable")[: int(left[item])]:
            if remainders[item, column] > settings.integrality_tolerance:
                shares[item, column] += 1
                left[item] -= 1
    return shares, left


def _spread_evenly(
    problem: PackingProblem, row: _EqualMachines, item: ItemIndex, pods: int, settings: RoundingSettings
) -> int:
    """Spread pods over equal machines, the last few by likeness to the free capacity; return how many did not fit."""
    while pods > 0:
        room = row.room(problem, item)
        machines = np.flatnonzero(room > 0)
        if not machines.size:
            return pods
        each = pods // machines.size
        if each:
            amounts = np.minimum(room[machines], each)
        else:
            machines = _most_alike(problem, row, item, machines, settings)[:pods]
            amounts = np.ones(len(machines), dtype=np.int64)
        row.add(problem, item, machines=machines, amounts=amounts)
        pods -= int(amounts.sum())
    return 0


def _most_alike(
    problem: PackingProblem, row: _EqualMachines, item: ItemIndex, machines: Ints, settings: RoundingSettings
) -> Ints:
    """Return the machines in the order of the likeness of their free capacity to the pod's requests, the most alike first."""
    # In shares of the type's capacity: free · request / |free| + weight · max(free), the cosine up to a constant plus a bonus
    # for machines with much of some resource left. free: [machine, resource], share: [resource].
    capacity = np.maximum(problem.capacity[row.type_index], 1)
    free, share = row.free[machines] / capacity, problem.requests[item] / capacity
    cosine = (free @ share) / np.maximum(np.linalg.norm(free, axis=1), 1e-9)
    likeness = cosine + settings.free_share_weight * free.max(axis=1)
    return machines[np.argsort(-likeness, kind="stable")]


def _into_gaps(problem: PackingProblem, filled: list[_EqualMachines], left: Ints) -> None:
    """Put the remaining pods into any capacity, large ones first; `left` is reduced in place."""
    for number in largest_first(problem.requests, problem.capacity.max(axis=0)):
        item = ItemIndex(int(number))
        for row in filled:
            if not left[item]:
                break
            amounts = distributed(left[item], np.maximum(row.room(problem, item), 0))
            machines = np.flatnonzero(amounts)
            row.add(problem, item, machines=machines, amounts=amounts[machines])
            left[item] -= int(amounts.sum())


def _bought(problem: PackingProblem, row: _EqualMachines) -> Packing:
    """Return the loads of these machines, each on the cheapest type that holds it; empty machines are not bought."""
    loads = row.loads[row.loads.any(axis=1)]
    return right_sized(problem, Packing(np.full(len(loads), row.type_index), loads))
