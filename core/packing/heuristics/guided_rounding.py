"""Guided fill: the fluid solution in whole machines. Machines of one type get nearly equal loads, so the mix stays right."""

from __future__ import annotations

import math
from itertools import product
from typing import Final

import numpy as np

from core.packing.heuristics.value_packing import pack_by_value
from core.packing.problem import Floats, Ints, Packing, Problem, joined, resized
from core.packing.relaxation.fluid_lp import Fluid

SUPPORT_MIN: Final = 0.25
"""A type of which the fluid solution buys less than this is left to the rounding."""

CUT_SHARE: Final = 0.006
CUT_TYPES: Final = 3
CUTS_EACH: Final = 4
CUTS_MAX: Final = 12
"""Cuts of the most bought types, up to three steps each; a step is one machine, or a small share of many."""


class _Row:
    """Machines of one type while they are filled."""

    def __init__(self, problem: Problem, kind: int, machines: int) -> None:
        self.kind = kind
        self.free = np.tile(problem.room[kind], (machines, 1))
        self.loads = np.zeros((machines, len(problem.counts)), dtype=np.int64)

    def capacity(self, problem: Problem, pod_class: int) -> Ints:
        """How many pods of the class each machine still takes."""
        wanted = problem.requests[pod_class]
        asked = np.flatnonzero(wanted)
        room: Ints = np.full(len(self.free), problem.counts[pod_class])
        if asked.size:
            room = (self.free[:, asked] // wanted[asked]).min(axis=1)
        free: Ints = np.minimum(room, problem.fit[pod_class, self.kind] - self.loads[:, pod_class])
        return free

    def add(self, problem: Problem, pod_class: int, machines: Ints, amounts: Ints) -> None:
        """Put pods of the class on these machines."""
        self.loads[machines, pod_class] += amounts
        self.free[machines] -= amounts[:, None] * problem.requests[pod_class]


def cuts(fluid: Fluid) -> list[tuple[int, ...]]:
    """How many machines of each type to leave out of the fluid solution rounded up: nothing first, then more and more.

    Rounding leaves gaps, and a machine that would be filled by a tenth is better replaced by a smaller one.
    """
    machines = fluid.machines[_support(fluid)]
    steps = np.maximum(1, np.rint(machines * CUT_SHARE)).astype(int)
    sums = product(range(CUTS_EACH), repeat=min(len(machines), CUT_TYPES))
    ordered = sorted(sums, key=lambda cut: (sum(cut), cut))[:CUTS_MAX]
    largest_first = np.argsort(-machines, kind="stable")
    found = []
    for cut in ordered:
        whole = np.zeros(len(machines), dtype=int)
        whole[largest_first[: len(cut)]] = cut
        found.append(tuple(int(n) for n in whole * steps))
    return found


def guided_fill(problem: Problem, fluid: Fluid, generator: np.random.Generator, cut: tuple[int, ...]) -> Packing:
    """Round the fluid solution up, less the machines in `cut`; what does not fit is packed by value."""
    support = _support(fluid)
    shares, left = _whole_shares(problem, fluid.loads[:, support])
    rows = []
    for column, kind in enumerate(support):
        machines = math.ceil(fluid.machines[kind] - 1e-6) - cut[column]
        if machines <= 0:
            left += shares[:, column]
            continue
        row = _Row(problem, int(kind), machines)
        for pod_class in _largest_first(problem, problem.room[kind]):
            if shares[pod_class, column]:
                left[pod_class] += _spread_evenly(problem, row, int(pod_class), int(shares[pod_class, column]))
        rows.append(row)
    _into_gaps(problem, rows, left)
    parts = [_bought(problem, row) for row in rows]
    if left.any():
        parts.append(pack_by_value(problem, left, fluid.values, generator))
    return joined(parts, len(problem.counts))


def _support(fluid: Fluid) -> Ints:
    """Types of which the fluid solution buys enough to guide by."""
    found: Ints = np.flatnonzero(fluid.machines > SUPPORT_MIN)
    return found


def _whole_shares(problem: Problem, loads: Floats) -> tuple[Ints, Ints]:
    """Fluid loads in whole pods, the largest remainders rounded up, and what is left over of each class."""
    covered = np.maximum(loads.sum(axis=1), 1e-9)
    loads = loads * np.minimum(1.0, problem.counts / covered)[:, None]  # what costs nothing may be covered twice
    shares = np.floor(loads + 1e-7).astype(np.int64)
    excess = shares.sum(axis=1) - problem.counts
    for pod_class in np.flatnonzero(excess > 0):
        column = int(np.argmax(shares[pod_class]))
        shares[pod_class, column] -= excess[pod_class]
    left = problem.counts - shares.sum(axis=1)
    remainders = loads - np.floor(loads + 1e-7)
    for pod_class in np.flatnonzero(left > 0):
        for column in np.argsort(-remainders[pod_class], kind="stable")[: int(left[pod_class])]:
            if remainders[pod_class, column] > 1e-6:
                shares[pod_class, column] += 1
                left[pod_class] -= 1
    return shares, left


def _largest_first(problem: Problem, room: Ints) -> Ints:
    """Classes by the largest share of `room` that one pod takes."""
    share = (problem.requests / np.maximum(room, 1)).max(axis=1)
    return np.argsort(-share, kind="stable")


def _spread_evenly(problem: Problem, row: _Row, pod_class: int, pods: int) -> int:
    """Spread pods over the row's machines; the last few go where the free mix is most like them. Returns what did not fit."""
    while pods > 0:
        capacity = row.capacity(problem, pod_class)
        open_machines = np.flatnonzero(capacity > 0)
        if not open_machines.size:
            return pods
        each = pods // open_machines.size
        if each:
            amounts = np.minimum(capacity[open_machines], each)
        else:
            open_machines = _most_alike(problem, row, pod_class, open_machines)[:pods]
            amounts = np.ones(len(open_machines), dtype=np.int64)
        row.add(problem, pod_class, open_machines, amounts)
        pods -= int(amounts.sum())
    return 0


def _most_alike(problem: Problem, row: _Row, pod_class: int, machines: Ints) -> Ints:
    room = np.maximum(problem.room[row.kind], 1)
    free, share = row.free[machines] / room, problem.requests[pod_class] / room
    likeness = (free @ share) / np.maximum(np.linalg.norm(free, axis=1), 1e-9) + 0.3 * free.max(axis=1)
    return machines[np.argsort(-likeness, kind="stable")]


def _into_gaps(problem: Problem, rows: list[_Row], left: Ints) -> None:
    """Leftovers into whatever room there is, large pods first. `left` is brought down in place."""
    for pod_class in _largest_first(problem, problem.room.max(axis=0)):
        for row in rows:
            if not left[pod_class]:
                break
            capacity = np.maximum(row.capacity(problem, int(pod_class)), 0)
            amounts = np.diff(np.minimum(np.cumsum(capacity), left[pod_class]), prepend=0)
            machines = np.flatnonzero(amounts)
            row.add(problem, int(pod_class), machines, amounts[machines])
            left[pod_class] -= int(amounts.sum())


def _bought(problem: Problem, row: _Row) -> Packing:
    """The row's loads, each on the cheapest type that holds it; empty machines are not bought."""
    loads = row.loads[row.loads.any(axis=1)]
    return resized(problem, Packing(np.full(len(loads), row.kind), loads))
