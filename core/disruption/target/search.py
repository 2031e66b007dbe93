"""Searches for a target: solves and rounds the keep-or-drain program, improves small fleets node by node, bounds the cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec
import numpy as np

from core import labels
from core.disruption.candidate import Candidate
from core.disruption.consolidation import objection
from core.disruption.disruption_pass import DisruptionPass, fleet_price
from core.disruption.target.fleet import TargetFleet
from core.disruption.target.move_price import KEEP_DISCOUNTS
from core.disruption.target.realization import PlannedSlots, ProgramSlots, Realization, Realizations
from core.packing.fleet_target import (
    DOLLARS,
    FleetTarget,
    KeepOrDrain,
    PodCells,
    TargetRules,
    fleet_bound,
    promising,
    rounded,
)
from core.packing.problem import Bools, Floats, Ints
from core.packing.relaxation import relax
from core.packing.settings import DEFAULT_SETTINGS, SearchBudget
from core.reasons.code import Refusal, TerminationReason
from core.reasons.nodes import (
    NEEDS_SPOT_GATE,
    GoesLater,
    NoCheaperPlace,
    NodeReason,
    PodUnplaced,
    TargetAwaitsBudgets,
    TargetAwaitsPods,
)
from core.scheduling.fleet_rows import DrainableNode, FleetRows

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
        keeps = self._least_disruptive(rounded(solved.stay))
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
        """Return the best of a few initial choices, in a small fleet improved by one node at a time, then by exchanges."""
        tried = {keeps.tobytes(), np.ones_like(keeps).tobytes()}
        for number, choice in enumerate(self._starts(keeps, is_small=is_small)):
            portion = budget.portion(PACKED_SHARE) if number < PACKED_STARTS else None
            best = self._better(best, choice, planned, tried, drains_max, portion)
            budget.steps += portion.steps if portion is not None else 0
        improved = is_small
        while improved and self.realizations.asked < CHOICES_MAX and not budget.is_spent:
            before = best
            for node in range(len(keeps)):
                choice = best.keeps.copy()
                choice[node] ^= True
                best = self._better(best, choice, planned, tried, drains_max)
                if self.realizations.asked >= CHOICES_MAX:
                    break
            improved = best is not before
        if is_small:
            best = self._exchanged(best, planned, tried, drains_max, budget)
        packed = self.realizations.of(best.keeps, planned, budget)
        return min(best, packed, key=_goal)

    def _exchanged(
        self,
        best: Realization,
        planned: PlannedSlots,
        tried: set[bytes],
        drains_max: dict[str, int] | None,
        budget: SearchBudget,
    ) -> Realization:
        """Return the best choice after nodes that go were exchanged for others of the same price that cost less to disrupt."""
        candidates, prices, must_go = self.fleet.candidates, self.fleet.prices, self.fleet.must_go
        best = self._better(best, self._least_disruptive(best.keeps), planned, tried, drains_max)
        by_cost = sorted(np.flatnonzero(~must_go).tolist(), key=lambda node: candidates[node].cost)
        for goes in reversed([node for node in by_cost if not best.keeps[node]]):
            for stays in by_cost:
                if self.realizations.asked >= CHOICES_MAX or budget.is_spent:
                    return best
                if candidates[stays].cost >= candidates[goes].cost or best.keeps[goes]:
                    break
                if best.keeps[stays] and prices[stays] == prices[goes]:
                    choice = best.keeps.copy()
                    choice[[goes, stays]] = True, False
                    best = self._better(best, choice, planned, tried, drains_max)
        return best

    def _least_disruptive(self, keeps: Bools) -> Bools:
        """Return the choice in which, of nodes that are alike, those go that cost the least to disrupt."""
        fleet, chosen = self.fleet, keeps.copy()
        problem, alike = fleet.rows.problem, dict[object, list[int]]()
        for node, candidate in enumerate(fleet.candidates):
            kind = (
                candidate.pool.name,
                candidate.state.labels.get(labels.ZONE),
                fleet.prices[node],
                fleet.must_go[node],
            )
            rules = (problem.move_prices[node], problem.is_spot[node], problem.room_groups[node], fleet.held[node])
            pods = problem.loads[node].tobytes(), problem.free[node].tobytes()
            alike.setdefault((kind, rules, pods), []).append(node)
        for nodes in alike.values():
            by_cost = sorted(nodes, key=lambda node: (fleet.candidates[node].cost, keeps[node]))
            chosen[by_cost] = np.arange(len(nodes)) >= np.count_nonzero(~keeps[nodes])
        return chosen

    def _better(
        self,
        best: Realization,
        choice: Bools,
        planned: PlannedSlots,
        tried: set[bytes],
        drains_max: dict[str, int] | None,
        portion: SearchBudget | None = None,
    ) -> Realization:
        """Return the better of the best so far and one more choice."""
        if choice.tobytes() in tried or not self._is_within(choice, drains_max):
            return best
        tried.add(choice.tobytes())
        realization = self.realizations.of(choice, planned, portion)
        tried.add(realization.keeps.tobytes())
        return min(best, realization, key=_goal)

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


def _goal(realization: Realization) -> tuple[int, bool, int, int]:
    return realization.goal


def _is_far(best: Realization, solved: FleetTarget) -> bool:
    return best.cost * DOLLARS * 100 > solved.cost * FAR_PERCENT


# Explains why a target keeps candidates.


class TargetWaveResult(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """The part of a target that does not begin now.

    Attributes:
        keeps: [node], whether the target keeps it; None without a target.
        worth: [node], its price less the cost of its pods elsewhere, in nano-dollars per hour; None if unknown.
        objections: Node → why it does not go now, apart from budgets. It may name a node that this target keeps, but that a
            discarded target drained.
        goes_on: Whether later waves are still expected: commands begin now or are in progress.
    """

    keeps: Bools | None = None
    worth: Floats | None = None
    objections: Mapping[str, Refusal] = {}
    goes_on: bool = True


def waits(held: Iterable[Candidate], until: datetime) -> Refusal:
    """Return why a node stays that the target keeps or does not know, while the target waits for held nodes."""
    first, *others = sorted(candidate.name for candidate in held)
    return TargetAwaitsPods(first, len(others), until)


def waits_for_budgets(fleet: TargetFleet, keeps: Bools, disruption_pass: DisruptionPass) -> dict[str, Refusal]:
    """Return node → why it stays that a target keeps or does not know, while the target waits for leaving nodes.

    Nothing is computed for such a node. The text has the budgets that keep it, or else the first node of the target, and the
    nodes that use them up.
    """
    budgets, waiting = disruption_pass.budgets, dict[str, Refusal]()
    going = next((node for node, stays in enumerate(keeps) if not stays), None)
    awaited = None if going is None else budgets.objection(fleet.candidates[going], fleet.reason(going))
    for node, candidate in enumerate(fleet.candidates):
        if keeps[node]:
            refusal = budgets.objection(candidate, fleet.reason(node)) or awaited
            waiting[candidate.name] = TargetAwaitsBudgets(refusal or "")
    return waiting


def refuse_the_rest(disruption_pass: DisruptionPass, search: TargetSearch, wave: TargetWaveResult) -> None:
    """Record for every candidate why it stays, as if none went; candidates that do go lose their refusal later.

    A node that the target drains is refused as "later wave" only if an earlier wave is to come. Otherwise its own objection is
    the reason.
    """
    fleet = search.fleet
    for node, candidate in enumerate(fleet.candidates):
        if wave.keeps is None or wave.keeps[node]:
            why = wave.objections.get(candidate.name) or _why(fleet, search, node, candidate)
            disruption_pass.refuse(candidate, why)
            continue
        refusal = disruption_pass.refusals.get(candidate.name)
        if refusal is None or refusal.reason not in (NodeReason.EVICTION_RATE, NodeReason.SHRINKING):
            _refuse_for_now(disruption_pass, candidate, wave, node)


def _refuse_for_now(disruption_pass: DisruptionPass, candidate: Candidate, wave: TargetWaveResult, node: int) -> None:
    savings = 0 if wave.worth is None else max(0, int(wave.worth[node]))
    objection = wave.objections.get(candidate.name)
    if objection is not None and not wave.goes_on:
        disruption_pass.refuse(candidate, objection, savings)
    else:
        disruption_pass.refuse(candidate, GoesLater(candidate.name, objection), savings)


def _why(fleet: TargetFleet, search: TargetSearch, node: int, candidate: Candidate) -> Refusal:
    rows, unplaced_items = fleet.rows, search.realizations.unplaced_items
    stranded = next((pod.key for pod in rows.pods[node] if rows.row_of_pod[pod.key] in unplaced_items), "")
    if stranded:
        return PodUnplaced(stranded)
    if search.realizations.gated[node]:
        return NEEDS_SPOT_GATE
    return NoCheaperPlace(len(candidate.pods), int(fleet.rows.problem.move_prices[node]))


# Computes a lower bound on the fleet's cost over all possible decisions.


def fleet_floor(disruption_pass: DisruptionPass) -> int:
    """Return a lower bound for every decision about this snapshot, in nano-dollars per hour: nodes that may go, plus the rest.

    The bound ignores budgets and rules between pods; it uses only what each pod alone requires of a node.

    Args:
        disruption_pass: A pass that has decided nothing yet.
    """
    snapshot = disruption_pass.snapshot
    repairs = snapshot.options.feature_gates.node_repair
    going, free = [], 0
    for candidate in disruption_pass.survey.candidates:
        may_drift = bool(candidate.drift) and disruption_pass.is_free(candidate, TerminationReason.DRIFTED)
        may_leave = not candidate.protected and (repairs or objection(candidate, disruption_pass) is None)
        if candidate.pool.is_static and (may_drift or repairs):
            free += candidate.price  # its replacement is not known here, so it counts as zero
        elif may_drift or may_leave:
            going.append(candidate)
    if not going:
        return fleet_price(snapshot) - free
    context = disruption_pass.planner.context
    positions = context.positions
    rows = FleetRows(context, [DrainableNode(positions[c.name], c.price, 0) for c in going], ())
    types = np.zeros(0, dtype=np.int64)
    if rows.market is not None:
        types = promising(rows.market, relax(rows.market, DEFAULT_SETTINGS))
    return fleet_price(snapshot) - free - sum(c.price for c in going) + fleet_bound(rows.problem, types)
