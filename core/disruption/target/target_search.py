"""Searches for a target: solves and rounds the keep-or-drain program, and improves small fleets node by node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.disruption.target.move_price import KEEP_DISCOUNTS
from core.disruption.target.planned_slots import PlannedSlots, ProgramSlots
from core.disruption.target.realization import Realization, Realizations
from core.disruption.target.target_fleet import TargetFleet
from core.packing.problem import Bools, Floats, Ints
from core.packing.relaxation.fluid_lp import relax
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.target.fleet_problem import PodCells
from core.packing.target.fleet_target import DOLLARS, FleetTarget, rounded
from core.packing.target.keep_or_drain import KeepOrDrain, TargetRules
from core.packing.target.launch_choice import promising

SMALL: Final = 40
"""A fleet with at most this many candidates is small: rounding is coarse, and the scheduler evaluates a choice in
milliseconds."""

MEDIUM: Final = 200
"""A fleet with more candidates is left as the program has rounded it: the scheduler takes seconds for a choice."""

FAR_PERCENT: Final = 130
"""A choice that costs so much of the program's solution is far from it: rules that the program does not know, such as spreads
over zones, keep many nodes. Fragmented fleets with few rules are within 128 before their new nodes are packed."""

CHOICES_MAX: Final = 160
"""The most choices that are evaluated for a small fleet."""

RELEASE_WORK: Final = 8_000
"""How many spot nodes that stay are tried without, times candidates, where others stay for the pods of spot nodes: a try takes
longer in a large fleet."""

PACKED_STARTS: Final = 2
PACKED_SHARE: Final = 0.2
"""How many initial choices have their new nodes packed as well as possible, and each one's share of the remaining budget.
"""


@dataclass(frozen=True, slots=True, eq=False)
class FoundTarget:
    """The best choice found.

    Attributes:
        realization: The scheduler's result for it.
        slots: The intended places for the pods of leaving nodes.
        worth: [node], a node's price less the cost of its pods elsewhere, in nano-dollars per hour.
    """

    realization: Realization
    slots: PlannedSlots
    worth: Floats


class TargetSearch:
    """Searches for the target of one fleet.

    Attributes:
        fleet: The candidates.
        realizations: The evaluations by the scheduler.
    """

    def __init__(self, fleet: TargetFleet, moves: str, *, is_gated: bool) -> None:
        self.fleet = fleet
        self._is_gated = is_gated
        self._discount = KEEP_DISCOUNTS[moves]
        self.realizations = Realizations(fleet, is_gated=is_gated, keep_discount=self._discount)
        self._program: KeepOrDrain | None = None
        self._types: Ints | None = None

    def found(self, budget: SearchBudget, drains_max: dict[str, int] | None = None) -> FoundTarget:
        """Return the best choice found within a budget.

        Args:
            budget: Bounds the search for cheaper new nodes and other choices.
            drains_max: NodePool → how many of its nodes may go in total; None for any number.
        """
        solved = self.solved(drains_max)
        planned = ProgramSlots(self.fleet, solved.into, solved.machines, is_gated=self._is_gated)
        keeps = rounded(solved.stay)
        nothing = self.realizations.of(np.ones_like(keeps), None, None)
        is_small = len(keeps) <= SMALL
        has_starts = is_small or (len(keeps) <= MEDIUM and _is_far(self.realizations.of(keeps, planned, None), solved))
        portion = budget.portion(0.5 if has_starts else 1)
        has_releases = drains_max is None and not has_starts
        releases = RELEASE_WORK // len(keeps) if has_releases else 0
        best = min(nothing, self.realizations.of(keeps, planned, portion, releases=releases), key=_goal)
        budget.steps += portion.steps
        if has_starts:
            best = self._improved(best, planned, keeps, budget, drains_max, is_small=is_small)
        problem = self.fleet.rows.problem
        values = solved.cell_values[PodCells.of(problem).cell] / DOLLARS
        return FoundTarget(best, planned, problem.prices - problem.loads @ values)

    def _rules(self, drains_max: dict[str, int] | None) -> TargetRules:
        base = TargetRules(keep_discount=self._discount / 1000, is_gated=self._is_gated)
        if drains_max is None:
            return base
        names = sorted(drains_max)
        pools = np.array([names.index(c.pool.name) for c in self.fleet.candidates], dtype=np.int64)
        most = np.array([drains_max[name] for name in names], dtype=float)
        return TargetRules(base.fill, base.keep_discount, self._is_gated, pools, most)

    def solved(self, drains_max: dict[str, int] | None = None) -> FleetTarget:
        """Return the program's solution, in which nodes and pods may be split; `drains_max` as for `found`."""
        problem = self.fleet.rows.problem
        if self._program is None:
            cells = PodCells.of(problem)
            self._program = KeepOrDrain(problem, cells, self._launched(), cells.mean_requests(problem))
        return self._program.solve(self._rules(drains_max))

    def _launched(self) -> Ints:
        """The types that the program may buy."""
        if self._types is None:
            market = self.fleet.rows.market
            none = np.zeros(0, dtype=np.int64)
            self._types = none if market is None else promising(market, relax(market, DEFAULT_SETTINGS))
        return self._types

    def _improved(
        self,
        best: Realization,
        planned: PlannedSlots,
        keeps: Bools,
        budget: SearchBudget,
        drains_max: dict[str, int] | None,
        *,
        is_small: bool,
    ) -> Realization:
        """Return the best of a few initial choices, in a small fleet improved by one node at a time."""
        asked = {keeps.tobytes(), np.ones_like(keeps).tobytes()}
        for number, choice in enumerate(self._starts(keeps, is_small=is_small)):
            portion = budget.portion(PACKED_SHARE) if number < PACKED_STARTS else None
            best = self._better(best, choice, planned, asked, drains_max, portion)
            budget.steps += portion.steps if portion is not None else 0
        improved = is_small
        while improved and self.realizations.asked < CHOICES_MAX and not budget.is_spent:
            before = best
            for node in range(len(keeps)):
                choice = best.keeps.copy()
                choice[node] ^= True
                best = self._better(best, choice, planned, asked, drains_max)
                if self.realizations.asked >= CHOICES_MAX:
                    break
            improved = best is not before
        packed = self.realizations.of(best.keeps, planned, budget)
        return min(best, packed, key=_goal)

    def _better(
        self,
        best: Realization,
        choice: Bools,
        planned: PlannedSlots,
        asked: set[bytes],
        drains_max: dict[str, int] | None,
        portion: SearchBudget | None = None,
    ) -> Realization:
        """Return the better of the best so far and one more choice."""
        if choice.tobytes() in asked or not self._is_within(choice, drains_max):
            return best
        asked.add(choice.tobytes())
        found = self.realizations.of(choice, planned, portion)
        asked.add(found.keeps.tobytes())
        return min(best, found, key=_goal)

    def _starts(self, keeps: Bools, *, is_small: bool) -> Iterator[Bools]:
        """Yield all nodes but those that must go, then no node, then in a small fleet all nodes but one."""
        stay = ~self.fleet.must_go
        yield stay.copy()
        yield np.zeros_like(keeps)
        for node in range(len(keeps) if is_small else 0):
            alone = stay.copy()
            alone[node] = False
            yield alone

    def _is_within(self, keeps: Bools, drains_max: dict[str, int] | None) -> bool:
        going = [c.pool.name for c, stays in zip(self.fleet.candidates, keeps, strict=True) if not stays]
        return drains_max is None or all(going.count(name) <= drains_max.get(name, len(keeps)) for name in set(going))


def _goal(found: Realization) -> tuple[int, bool, int, int]:
    return found.goal


def _is_far(best: Realization, solved: FleetTarget) -> bool:
    return best.cost * DOLLARS * 100 > solved.cost * FAR_PERCENT
