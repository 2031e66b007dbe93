"""Shares a search's budget between the parts of a plan, and goes on with those that are far from their bound."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from core.packing.optimize import Improved, improve, round_only
from core.packing.relaxation.preparation import leaving_a_choice
from core.packing.search_budget import Budget
from core.scheduling.capacity.in_flight_claim import InFlightClaim
from core.scheduling.optimization.subproblems.subproblem import Part

ROUNDS_MAX: Final = 20
"""Most times that a part is searched; each begins with what the last one found and other dice."""

GAP_DONE: Final = 1e-3
"""Cost over bound at which a part is not searched again."""


class Search:
    """The best packing of one part so far."""

    def __init__(self, part: Part, budget: Budget) -> None:
        self._part = part
        problem = part.problem()
        self._ready = leaving_a_choice(problem, budget) if problem.prices.all() else None
        self._best: Improved | None = None

    @property
    def gap(self) -> int:
        """Nano-dollars per hour that might yet be saved; nothing where machines cost nothing, for they have no order."""
        if self._ready is None:
            return 0
        if self._best is None:
            return int(self._ready.fluid.bound) + 1
        bound = self._best.lower_bound
        gap = self._best.packing.cost(self._ready.problem) - bound
        return gap if gap > bound * GAP_DONE else 0

    def advance(self, seed: int, budget: Budget, *, is_quick: bool) -> bool:
        """Search once, and say whether that found anything cheaper."""
        if self._ready is None:
            return False
        problem, before = self._ready.problem, self._best
        start = before.packing if before else self._part.incumbent(problem)
        self._best = (round_only if is_quick else improve)(self._ready, start, seed=seed, budget=budget)
        return before is None or self._best.packing.cost(problem) < before.packing.cost(problem)

    def claims(self) -> list[InFlightClaim]:
        """Claims for what was found, nothing where nothing was."""
        if self._ready is None or self._best is None:
            return []
        return self._part.claims_of(self._ready.problem, self._best.packing)


def search(parts: Iterable[Part], seed: int, budget: Budget) -> list[Search]:
    """Search every part, again and again while that saves anything and the budget lasts.

    Where there are several, each gets its quick stages before any gets the slow ones.
    """
    searches = [Search(part, budget) for part in parts]
    for number in range(ROUNDS_MAX):
        is_quick = number == 0 and len(searches) > 1
        left = sorted((one for one in searches if one.gap), key=lambda one: -one.gap)
        gaps = [one.gap for one in left]
        saved = False
        for position, one in enumerate(left):
            portion = budget.portion(gaps[position] / sum(gaps[position:]))
            saved |= one.advance(seed + number, portion, is_quick=is_quick)
            budget.steps += portion.steps
        if not saved or budget.is_spent:
            break
    return searches
