"""Decides the target and which part of it goes now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec
import numpy as np

from core.disruption.candidates.balanced_policy import rejecting_pool
from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.new_nodes import narrowed_claims
from core.disruption.consolidation.payback import WORTHWHILE
from core.disruption.consolidation.single_command import single_command
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.realization import Realization
from core.disruption.target.stored_target_check import (
    awaited_budgets,
    awaited_until,
    continued,
    joined,
    kept_by,
    stored,
)
from core.disruption.target.target_fleet import TargetFleet, spot_is_gated, target_fleet
from core.disruption.target.target_refusals import (
    TOGETHER_ONLY,
    TargetWaveResult,
    WaveObjection,
    refuse_the_rest,
    waits,
    waits_for_budgets,
)
from core.disruption.target.target_search import SMALL, FoundTarget, TargetSearch
from core.disruption.target.target_waves import Target, target_waves
from core.disruption.target.wave_budgets import WaveBudgets
from core.model.plan import Command, PlannedClaim, StoredTarget
from core.packing.problem import Bools
from core.packing.search_budget import SearchBudget
from core.reasons.target import TargetReason
from core.reasons.termination import TerminationReason

CHANGES_MAX: Final = 8
"""The most changes of a target that is partly not allowed; more nodes stay after each."""

CHANGE_SHARE: Final = 0.5
"""Share of the remaining search budget for the new packing after each change."""


class TargetDecision:
    """Decides about the nodes of one pass that have drifted or that consolidation may touch.

    Attributes:
        kept: The target to store for the next pass, None for none.
        reason: Why the stored target is continued or replaced; None if there is nothing to decide.
    """

    def __init__(self, disruption_pass: DisruptionPass, budget: SearchBudget) -> None:
        self.kept: StoredTarget | None = None
        self.reason: TargetReason | None = None
        self._pass = disruption_pass
        self._budget = budget
        self._objections: dict[str, WaveObjection] = {}
        self._without_wave: TargetFleet | None = None
        self._is_gated = spot_is_gated(disruption_pass)

    def commands(self) -> list[Command]:
        """Return the commands that may begin now; with budgets ignored, all of them. Records why each other node stays."""
        options = self._pass.snapshot.options
        before = None if options.ignore_budgets else self._pass.snapshot.stored_target
        fleet = target_fleet(self._pass, before)
        if fleet is None:
            return []
        search = TargetSearch(fleet, options.moves, is_gated=self._is_gated)
        waiting = awaited_budgets(self._pass, fleet)
        if waiting:
            return self._beside(waiting, fleet, search)
        target, found = self._continued(fleet, search)
        keeps = target.realization.keeps if target is not None else None
        if not found and not (target is not None and self._awaits_evictions(target)):
            if fleet.held.any():  # a new target leaves nodes that PodDisruptionBudgets hold
                fleet = target_fleet(self._pass)
                if fleet is None:
                    return []
                search = TargetSearch(fleet, options.moves, is_gated=self._is_gated)
            target, found, keeps = self._made(fleet, search)
            self._without_wave = None if found else fleet
        left = TargetWaveResult(
            keeps=keeps,
            worth=target.worth if target is not None else None,
            objections=self._objections,
            goes_on=bool(found) and not options.ignore_budgets,
        )
        refuse_the_rest(self._pass, search, left)
        return found

    def single(self) -> list[Command]:
        """Return a command by Karpenter's methods if no part of the target that `commands` made for a small fleet may begin."""
        fleet = self._without_wave
        if fleet is None or len(fleet.candidates) > SMALL:
            return []
        by_choice = [c for c, must_go in zip(fleet.candidates, fleet.must_go, strict=True) if not must_go]
        moves = fleet.rows.problem.move_prices.tolist()
        prices = dict(zip((c.name for c in fleet.candidates), moves, strict=True))
        found = single_command(self._pass, by_choice, prices, WaveBudgets(self._pass).has_room_for)
        if found:
            self.kept = None
        return found

    def _made(self, fleet: TargetFleet, search: TargetSearch) -> tuple[Target | None, list[Command], Bools | None]:
        """A new target, None for none, its first wave, and [node], which nodes stay in the end."""
        self._objections = {}
        target = self._target(fleet, search, search.found(self._budget))
        found = self._first_commands(target) if target is not None else []
        keeps = target.realization.keeps if target is not None else None
        if target is None or found or self._pass.snapshot.options.ignore_budgets:
            return target, found, keeps
        # The first wave does not pay on its own. The best-paying nodes among as many as may go now are tried
        # instead.
        drains_max = {c.pool.name: self._most(c.pool.name) for c in fleet.candidates}
        now = self._target(fleet, search, search.found(self._budget, drains_max))
        found, keeps = (self._first_commands(now), now.realization.keeps) if now is not None else ([], None)
        only_together = ~target.realization.keeps & (True if keeps is None else keeps)
        pairs = zip(fleet.candidates, only_together, strict=True)
        self._objections |= dict.fromkeys((c.name for c, is_left in pairs if is_left), TOGETHER_ONLY)
        return now, found, keeps

    def _beside(self, waiting: frozenset[tuple[str, str]], fleet: TargetFleet, search: TargetSearch) -> list[Command]:
        """Return the commands of other nodes while the current target waits for budgets, given as (NodePool, reason)."""
        before, options = self._pass.snapshot.stored_target, self._pass.snapshot.options
        self.kept, self.reason = before, TargetReason.CONTINUED
        stay = kept_by(before, fleet)
        waits_too = waits_for_budgets(fleet, stay, self._pass)
        refuse_the_rest(self._pass, search, TargetWaveResult(keeps=stay, objections=waits_too))
        others = target_fleet(self._pass, besides=waiting)
        if others is None:
            return []
        self._pass.names.take(before.new_nodes if before is not None else ())
        beside = TargetSearch(others, options.moves, is_gated=self._is_gated)
        target, found, keeps = self._made(others, beside)
        worth = target.worth if target is not None else None
        left = TargetWaveResult(keeps=keeps, worth=worth, objections=self._objections, goes_on=bool(found))
        refuse_the_rest(self._pass, beside, left)
        self.kept = joined(before, self.kept, fleet) if found else before
        return found

    def _awaits_evictions(self, target: Target) -> bool:
        """Whether the current target has no wave only until pods run that left their nodes a short time ago.

        Then the nodes that it keeps wait, too.
        """
        fleet, keeps = target.fleet, target.realization.keeps
        pairs = list(zip(fleet.candidates, fleet.held, keeps, strict=True))
        held = [candidate for candidate, is_held, stays in pairs if is_held and not stays]
        until = awaited_until(held, self._pass)
        if until is not None:
            self._objections |= dict.fromkeys((c.name for c, _, stays in pairs if stays), waits(held, until))
        return until is not None

    def _continued(self, fleet: TargetFleet, search: TargetSearch) -> tuple[Target | None, list[Command]]:
        """Return the current target and its next wave, if it still holds and has one."""
        snapshot = self._pass.snapshot
        before = None if snapshot.options.ignore_budgets else snapshot.stored_target
        self.reason = TargetReason.MADE
        if before is None:
            return None, []
        going_on = continued(before, fleet, search.realizations, snapshot)
        self.reason = going_on.reason
        if going_on.found is None:
            return None, []
        target = self._target(fleet, search, going_on.found, before)
        return target, self._first_commands(target) if target is not None else []

    def _most(self, pool: str) -> int:
        reasons = (TerminationReason.UNDERUTILIZED, TerminationReason.DRIFTED)
        left = [self._pass.budgets.left(pool, reason) for reason in reasons]
        return max(len(self._pass.survey.candidates) if number is None else number for number in left)

    def _first_commands(self, target: Target) -> list[Command]:
        found = target_waves(target, self._pass, is_gated=self._is_gated)
        self._objections = dict(found.objections)
        if found.saved and self.kept is not None:
            self.kept = msgspec.structs.replace(self.kept, new_price=self.kept.new_price - found.saved)
        return found.commands

    def _target(
        self, fleet: TargetFleet, search: TargetSearch, found: FoundTarget, before: StoredTarget | None = None
    ) -> Target | None:
        """Return the choice as a complete target, None if all nodes stay; `before` is the target that it continues."""
        realization = found.realization
        for _ in range(CHANGES_MAX):
            if realization.keeps.all():
                return None
            staying, claims = self._staying(fleet, realization)
            if staying is None:
                named = self._pass.names.named_apart(claims)
                self.kept = stored(fleet, replace(found, realization=realization), named, self._pass.snapshot, before)
                return Target(fleet, realization, named, found.worth)
            portion = self._budget.portion(CHANGE_SHARE)
            realization = search.realizations.of(realization.keeps | staying, found.slots, portion)
            self._budget.steps += portion.steps
        return None

    def _staying(self, fleet: TargetFleet, found: Realization) -> tuple[Bools | None, tuple[PlannedClaim, ...]]:
        """Return [node], which further nodes have to stay (None for none), and the new nodes narrowed to what may launch."""
        by_choice = ~found.keeps & ~fleet.must_go
        price = int(fleet.prices[by_choice].sum())
        going = [c for c, goes in zip(fleet.candidates, by_choice, strict=True) if goes]
        drifted = [c for c, goes in zip(fleet.candidates, ~found.keeps & fleet.must_go, strict=True) if goes]
        claims = narrowed_claims(found.claims, None if drifted else price, _least_prices(going), self._pass.snapshot)
        if claims is None:
            return (by_choice if by_choice.any() else ~found.keeps), ()
        spent = _price_without(drifted, claims)
        if by_choice.any() and (price - spent) * WORTHWHILE < price:
            return by_choice, ()
        pool = rejecting_pool(going, price - spent, self._pass.totals)
        if pool:
            return np.array([c.pool.name == pool for c in fleet.candidates]) & by_choice, ()
        return None, claims


def _price_without(drifted: Sequence[Candidate], claims: Sequence[PlannedClaim]) -> int:
    """Return what new nodes cost, less the share, by number, of the pods that drift moves there in any case."""
    drifted_pods = {pod.key for candidate in drifted for pod in candidate.pods}
    return sum(claim.price * len({*claim.pods} - drifted_pods) // max(len(claim.pods), 1) for claim in claims)


def _least_prices(going: Sequence[Candidate]) -> dict[str, int]:
    """Return type → the lowest cost of one of several nodes that go by choice.

    Empty for a single node, which can only get cheaper, and for a large fleet, where many nodes have the best types already.
    """
    found: dict[str, int] = {}
    for candidate in going if 1 < len(going) <= SMALL else ():
        if candidate.instance_type is not None:
            name = candidate.instance_type.name
            found[name] = min(candidate.price, found.get(name, candidate.price))
    return found
