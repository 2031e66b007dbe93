"""Evaluates a choice of nodes to keep: places every drained pod by all rules, and computes the cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from core.disruption.stored_targets import PodKinds
from core.disruption.target.planned_slots import PlannedSlots
from core.disruption.target.target_fleet import TargetFleet
from core.model.plan import PlannedClaim
from core.packing.problem import Bools, Ints
from core.packing.search_budget import SearchBudget
from core.packing.search_settings import DEFAULT_SETTINGS
from core.packing.target.node_cover import covering
from core.scheduling.optimization.drained_fleet import DrainedFleet
from core.scheduling.plan_output import SchedulingResults
from core.scheduling.replanning.greedy_plans import Drains

REPAIRS_MAX: Final = 12
"""The most rounds in which further nodes are kept because their pods find no place."""

ROUNDS_WITH_ROOM: Final = 6
"""In so many of them, further nodes are kept for no pods that the free room of others seems to take."""

RELEASE_FAILURES_MAX: Final = 7
"""Spot nodes that stay are tried without until so many in a row could not go."""


@dataclass(frozen=True, slots=True, eq=False)
class Realization:
    """The result of the scheduler.

    Attributes:
        keeps: [node], whether it stays.
        results: Where the drained pods go.
        claims: New nodes that they need.
        cost: Nano-dollars per hour of the nodes that stay and the new ones.
        moves: The price of the moves, in the same unit.
        unmoved: How many nodes stay although they must go.
        displaces: Whether pods that wait anyway would need more expensive new nodes than without the move.
    """

    keeps: Bools
    results: SchedulingResults
    claims: tuple[PlannedClaim, ...]
    cost: int
    moves: int
    unmoved: int
    displaces: bool

    @property
    def goal(self) -> tuple[int, bool, int, int]:
        """The objective to minimize: cost and moves, after all nodes that must go; ties by the fewest nodes that go."""
        return self.unmoved, self.displaces, self.cost + self.moves, int((~self.keeps).sum())


class Realizations:
    """Evaluates choices of nodes with the scheduler.

    Attributes:
        asked: Number of evaluations.
        unplaced_items: Items with a pod that had no place in some choice.
        gated: [node], whether it was kept because spot is not replaced by spot.
    """

    def __init__(self, fleet: TargetFleet, *, is_gated: bool, keep_discount: int) -> None:
        """Prepare evaluations of one fleet.

        Args:
            fleet: The candidates.
            is_gated: Whether pods of spot nodes may only go to existing nodes.
            keep_discount: Discount on running nodes compared to new ones, in thousandths.
        """
        self._fleet = fleet
        self._is_gated = is_gated
        self._keep_discount = keep_discount
        self.asked = 0
        self.unplaced_items: set[int] = set()
        self.gated: Bools = np.zeros(len(fleet.candidates), dtype=bool)

    def of(
        self, keeps: Bools, planned: PlannedSlots | None, budget: SearchBudget | None, *, releases: int = 0
    ) -> Realization:
        """Evaluate the choice, keeping more nodes where pods would find no place; pack the new nodes at the end.

        `releases`: how many spot nodes of the choice are tried without, if others have to stay for the pods of spot nodes.
        """
        keeps = keeps.copy()
        for number in range(REPAIRS_MAX):
            drained = self._drained(keeps, planned)
            found = self._realization(keeps, drained.results)
            missing, may_cover = self._missing(found)
            if not missing.any():
                if number and self._is_gated:
                    found, drained = self._released(found, drained, planned, budget, releases)
                return self._packed(found, drained, planned, budget)
            kept = covering(
                self._fleet.rows.problem,
                missing,
                may_cover,
                counts_room=number < ROUNDS_WITH_ROOM,
                settings=DEFAULT_SETTINGS.target,
            )
            if not kept.any():
                break
            keeps |= kept
            if not found.results.plan.unschedulable:
                self.gated |= kept
        nothing = np.ones_like(keeps)
        return self._realization(nothing, self._drained(nothing, None).results)

    def _released(
        self,
        found: Realization,
        drained: DrainedFleet[SchedulingResults],
        planned: PlannedSlots | None,
        budget: SearchBudget | None,
        releases: int,
    ) -> tuple[Realization, DrainedFleet[SchedulingResults]]:
        """Return the best choice that lacks some of the spot nodes, the most expensive first.

        The nodes that stayed after all may have room for the pods of nodes that the program kept (docs/adr/0236).
        """
        problem, failures = self._fleet.rows.problem, 0
        may_go = found.keeps & problem.is_spot & ~self._fleet.must_go
        by_price = np.argsort(-np.where(may_go, problem.prices, -1), kind="stable")
        for node in by_price[: min(releases, int(may_go.sum()))]:
            if failures >= RELEASE_FAILURES_MAX or (budget is not None and budget.is_spent):
                break
            keeps = found.keeps.copy()
            keeps[node] = False
            tried = self._drained(keeps, planned)
            without = self._realization(keeps, tried.results)
            if without.goal < found.goal and not self._missing(without)[0].any():
                found, drained, failures = without, tried, 0
            else:
                failures += 1
        return found, drained

    def _drained(self, keeps: Bools, planned: PlannedSlots | None) -> DrainedFleet[SchedulingResults]:
        """Return the scheduler's result for one choice."""
        fleet, rows = self._fleet, self._fleet.rows
        self.asked += 1
        goes = ~keeps
        drains = Drains(
            leaving=frozenset(rows.positions(goes & ~fleet.must_go)),
            mandatory=frozenset(rows.positions(goes & fleet.must_go)),
            closed=fleet.closed,
            slots=planned.slots(keeps) if planned is not None and goes.any() else {},
        )
        return fleet.planner.drained(drains)

    def _packed(
        self,
        found: Realization,
        drained: DrainedFleet[SchedulingResults],
        planned: PlannedSlots | None,
        budget: SearchBudget | None,
    ) -> Realization:
        """Return the result with the intended new nodes, or else with new nodes packed within the budget."""
        # The room of capacity buffers stays on the nodes that the scheduler enlarged for it.
        if not found.claims or self._fleet.has_buffers:
            return found
        if planned is not None and planned.new_nodes:
            return self._realization(found.keeps, drained.regrouped(planned.new_nodes, PodKinds().of))
        return found if budget is None else self._realization(found.keeps, drained.packed(budget))

    def _realization(self, keeps: Bools, results: SchedulingResults) -> Realization:
        fleet, goes = self._fleet, ~keeps
        own = set(results.displaced)
        claims = tuple(claim for claim in results.plan.claims if own.intersection(claim.pods))
        kept = int(fleet.prices[keeps].sum()) * (1000 - self._keep_discount) // 1000
        cost = kept + sum(claim.price for claim in claims)
        others = results.plan.cost.hourly - sum(claim.price for claim in claims)
        return Realization(
            keeps=keeps.copy(),
            results=results,
            claims=claims,
            cost=cost,
            moves=int(fleet.rows.problem.move_prices[goes].sum()),
            unmoved=int((keeps & fleet.must_go).sum()),
            displaces=others > fleet.waiting_price,
        )

    def _missing(self, found: Realization) -> tuple[Ints, Bools]:
        """Return [item], pods without a valid place, and [node], whether keeping the node would help."""
        fleet, rows = self._fleet, self._fleet.rows
        loads = rows.problem.loads
        unschedulable = [pod for pod in found.results.plan.unschedulable if pod.pod not in fleet.waiting]
        unplaced, drained = self._rows_of(pod.pod for pod in unschedulable), ~found.keeps
        self.unplaced_items.update(np.flatnonzero(unplaced).tolist())
        if unplaced.any() or not self._is_gated:
            return unplaced, drained
        on_new = self._rows_of(key for claim in found.claims if "spot" in claim.capacity_types for key in claim.pods)
        is_spot = rows.problem.is_spot
        from_on_demand = loads[drained & ~is_spot].sum(axis=0)
        return np.maximum(on_new - from_on_demand, 0), drained & is_spot

    def _rows_of(self, keys: Iterable[str]) -> Ints:
        rows = self._fleet.rows
        counts = Counter(rows.row_of_pod[key] for key in keys if key in rows.row_of_pod)
        found = np.zeros(len(rows.items), dtype=np.int64)
        for row, count in counts.items():
            found[row] = count
        return found
