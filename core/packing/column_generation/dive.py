"""The configuration program: which loads to buy how often. Worth its time where machines hold few pods.

There the fluid relaxation is blind: that only two of three pods fit is lost in its fractions. Loads are found as the values of
pods ask for them (column generation) and then bought whole, the many first, the odd ones last (diving).
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from core.packing.column_generation.beam_pricing import Beam
from core.packing.column_generation.greedy_pricing import worthwhile_loads
from core.packing.column_generation.master_problem import Master, Mix
from core.packing.column_generation.shadow_prices import Rents, most_worth
from core.packing.column_generation.substitution_columns import StandIns
from core.packing.heuristics.value_packing import pack_by_value
from core.packing.problem import Floats, Ints, Packing, Problem, joined, resized
from core.packing.search_budget import Budget

SMOOTHING: Final = 0.4
"""Pods are valued between the master's latest prices and those of the best proof: the latest alone swing to and fro."""

FAILS_MAX: Final = 2
"""Rounds in a row without a new load that end the search; after the first, the latest prices are taken as they are."""

PATIENCE_ROUNDS: Final = 6
SAVED_MIN: Final = 3e-4
"""The search ends too when so many rounds together have not saved that share."""

GAP_DONE: Final = 5e-4

GENERATE_SHARE: Final = 0.6
"""Which part of the budget loads may be looked for at most: a mix is worth nothing before it is bought whole."""

DIVE_SHARES: Final = (0.3, 0.1, 0.02)
"""Which share of the machines is bought at once at the least, in turn: those that the mix buys most of."""

DIVES_FAILED_MAX: Final = 3
"""Dives in a row that found nothing cheaper and end the search."""

DIVE_ROUNDS_OF_PRICING: Final = 2


class Configurations:
    """The search over loads of one problem."""

    def __init__(self, problem: Problem, generator: np.random.Generator, budget: Budget) -> None:
        self._problem = problem
        self._generator = generator
        self._budget = budget
        self._stand_ins = StandIns.of(problem)
        self._master = Master(problem, self._stand_ins)
        self._is_fine = False
        self._add(_of_one_class(problem))

    def packing(self, known: list[Packing], bound: int) -> Packing:
        """A packing of all pods, from the loads of these packings and new ones.

        Args:
            known: The loads to start from.
            bound: A lower bound on what any packing costs.
        """
        for packing in known:
            self._add(packing)
        looking = self._budget.portion(GENERATE_SHARE)
        self._generate(bound, looking)
        self._budget.steps += looking.steps
        best, fails, dives = self._dive(DIVE_SHARES[0]), 0, 1
        while fails < DIVES_FAILED_MAX and best.cost(self._problem) > bound * (1 + GAP_DONE) and self._budget.step():
            found = self._dive(DIVE_SHARES[dives % len(DIVE_SHARES)])
            is_better = found.cost(self._problem) < best.cost(self._problem)
            best, fails, dives = found if is_better else best, 0 if is_better else fails + 1, dives + 1
        return best

    def values(self, known: Packing, bound: int) -> Floats:
        """[class], what one more pod would cost, from these loads and those that they lead to."""
        self._add(known)
        self._generate(bound, self._budget)
        return self._master.solved(self._problem.counts).values

    def _add(self, packing: Packing) -> int:
        return self._master.add(packing.types, packing.loads)

    def _generate(self, bound: int, budget: Budget) -> None:
        """Find loads until the master comes near the bound, nothing new turns up, or the budget is spent."""
        demand, rents = self._problem.counts, Rents(self._problem, self._problem.counts)
        proven, middle, fails = 0.0, None, 0
        costs = [math.inf] * PATIENCE_ROUNDS
        while fails < FAILS_MAX and budget.step():
            mix = self._master.solved(demand)
            costs.append(mix.cost)
            if mix.cost <= bound * (1 + GAP_DONE) or mix.cost > costs[-1 - PATIENCE_ROUNDS] * (1 - SAVED_MIN):
                break
            tried = mix.values if middle is None or fails else SMOOTHING * middle + (1 - SMOOTHING) * mix.values
            rent = rents.under(tried)
            overpriced = _overpriced(self._problem, demand, tried, rent)
            if middle is None or tried @ demand / overpriced > proven:
                proven, middle = float(tried @ demand / overpriced), tried / overpriced
            fails = 0 if self._find(mix, tried, rent) else fails + 1

    def _find(self, mix: Mix, tried: Floats, rent: Floats) -> int:
        """New loads under the values tried: by greedy knapsacks while these find any, then by beam search."""
        problem, demand = self._problem, self._problem.counts
        if not self._is_fine and self._add(worthwhile_loads(problem, demand, tried, mix.values, rent, self._generator)):
            return 1
        self._is_fine = True
        return self._add(Beam(problem, demand, tried, rent).loads())

    def _dive(self, share: float) -> Packing:
        """Buy whole machines, those bought most in the fluid mix first, and solve again for the pods that are left.

        What it buys becomes known: loads for the last pods make the next mix and the next dive better.
        """
        demand, parts = self._problem.counts.copy(), list[Packing]()
        while demand.any():
            if not self._budget.step(sure=not parts):
                values = self._master.solved(self._problem.counts).values
                parts.append(pack_by_value(self._problem, demand, values, self._generator))
                break
            mix = self._master.solved(demand) if not parts else self._priced_anew(demand)
            part = self._whole(mix, demand, share)
            if not len(part.types):
                part = pack_by_value(self._problem, demand, mix.values, self._generator)
            demand = demand - part.loads.sum(axis=0)
            parts.append(part)
        found = resized(self._problem, joined(parts, len(demand)))
        self._add(found)
        return found

    def _priced_anew(self, demand: Ints) -> Mix:
        """The mix for what is left, with loads made for it."""
        mix, rents = self._master.solved(demand), Rents(self._problem, demand)
        for _ in range(DIVE_ROUNDS_OF_PRICING):
            rent = rents.under(mix.values)
            found = worthwhile_loads(self._problem, demand, mix.values, mix.values, rent, self._generator)
            if not self._add(found):
                break
            mix = self._master.solved(demand)
        return mix

    def _whole(self, mix: Mix, demand: Ints, share: float) -> Packing:
        """What the mix buys whole, and where that is a smaller share of the machines, what it buys most of."""
        times = np.floor(mix.machines + 1e-6).astype(np.int64)
        lacking = max(1, int(share * mix.machines.sum())) - int(times.sum())
        if lacking > 0:
            times[np.argsort(times - mix.machines, kind="stable")[:lacking]] += 1
        bought = self._master.bought(times)
        loads = self._stand_ins.seated(bought.loads, mix.flows, demand)
        _top_up(self._problem, bought.types, loads, demand - loads.sum(axis=0))
        used = loads.any(axis=1)
        return Packing(bought.types[used], loads[used])


def _of_one_class(problem: Problem) -> Packing:
    """For each class the machine that it shares with its like at the least cost for each."""
    held = np.minimum(problem.fit, problem.counts[:, None])
    types = np.argmin(problem.prices / np.maximum(held, 1e-9), axis=1)
    return Packing(types, np.diag(held[np.arange(len(types)), types]))


def _overpriced(problem: Problem, demand: Ints, values: Floats, rents: Floats) -> float:
    """By how much, at the most, a machine's pods may be worth more than the machine: values over that prove a bound."""
    most = np.minimum(problem.fit, demand[:, None])
    return float((most_worth(problem, most, values, rents) / problem.prices).max())


def _top_up(problem: Problem, types: Ints, loads: Ints, left: Ints) -> None:
    """Pods that are left into the room that is left, large ones first; `loads` are changed in place."""
    free = problem.room[types] - loads @ problem.requests
    share = (problem.requests / np.maximum(problem.room.max(axis=0), 1)).max(axis=1)
    waiting = np.flatnonzero(left > 0)
    for pod_class in waiting[np.argsort(-share[waiting], kind="stable")]:
        wanted = problem.requests[pod_class]
        asked = np.flatnonzero(wanted)
        held = problem.fit[pod_class, types] - loads[:, pod_class]
        if asked.size:
            held = np.minimum(held, (free[:, asked] // wanted[asked]).min(axis=1))
        amounts = np.diff(np.minimum(np.cumsum(np.maximum(held, 0)), left[pod_class]), prepend=0)
        loads[:, pod_class] += amounts
        free -= amounts[:, None] * wanted
