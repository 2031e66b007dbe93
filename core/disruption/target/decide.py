"""Decides the target and which part of it goes now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
import numpy as np

from core.disruption.candidate import Candidate, rejecting_pool
from core.disruption.consolidation import single_commands
from core.disruption.consolidation_nodes import WORTHWHILE, narrowed_claims
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.target.fleet import TargetFleet, WaveBudgets, spot_is_gated, target_fleet
from core.disruption.target.landing import Landing, landed
from core.disruption.target.move_price import STARTED_WITHIN, settings_digest
from core.disruption.target.realization import Realization, Realizations, StoredTargetSlots
from core.disruption.target.search import (
    SMALL,
    FoundTarget,
    TargetSearch,
    TargetWaveResult,
    refuse_the_rest,
    waits,
    waits_for_budgets,
)
from core.disruption.target.stored import PodKinds
from core.disruption.target.waves import Target, target_waves
from core.model.plan import Command, PlannedClaim, StoredDrain, StoredNewNode, StoredSlots, StoredTarget
from core.model.snapshot import TARGET_AGE_MAX, Snapshot
from core.model.state_node import StateNode
from core.packing.problem import Bools
from core.packing.settings import SearchBudget
from core.pod_disruption_budgets import BudgetIndex
from core.reasons.code import Refusal, TargetReason, TerminationReason
from core.reasons.nodes import TOGETHER_ONLY, PlaceLost

# Checks whether a stored target still holds, and continues it or waits. Only the scheduler runs, no linear program.


SAVING_LOST: Final = (1, 20)
"""Share of the remaining saving that may be lost: prices fluctuate, and some nodes become protected."""

OUTGROWN: Final = (1, 10)
"""The price of the remaining nodes may grow by this share of all candidates' price; beyond it, the fleet has changed too
much."""


class Continued(NamedTuple):
    """The continuation of a stored target; if it must be planned again, `found` is None and `reason` says why."""

    found: FoundTarget | None
    reason: TargetReason


def continued(stored: StoredTarget, fleet: TargetFleet, realizations: Realizations, snapshot: Snapshot) -> Continued:
    """Return the rest of a stored target in the present snapshot.

    Nodes that are gone, are empty or may never go meanwhile are left out, those that have drifted meanwhile are added; pods
    whose slots are taken get others.
    """
    drains = {drain.node: drain for drain in stored.drains}
    keeps = kept_by(stored, fleet)
    if stored.settings != settings_digest(snapshot):
        return Continued(None, TargetReason.SETTINGS_CHANGED)
    if is_too_old(stored, snapshot):
        return Continued(None, TargetReason.TOO_OLD)
    if keeps.all():
        return Continued(None, TargetReason.FINISHED)
    kept, (part, whole) = _kept_price(fleet, keeps), OUTGROWN
    if (kept - stored.kept_price) * whole > int(fleet.prices.sum()) * part:
        return Continued(None, TargetReason.OUTGROWN)
    slots = StoredTargetSlots(fleet, stored)
    realization = realizations.of(keeps, slots, None)
    saved = int(fleet.prices[~realization.keeps].sum()) - sum(claim.price for claim in realization.claims)
    part, whole = SAVING_LOST
    if saved * whole < _promised(stored, fleet) * (whole - part) or realization.keeps.all() or realization.displaces:
        return Continued(None, TargetReason.SAVES_LESS)
    worth = np.array([drains[c.name].worth if c.name in drains else 0 for c in fleet.candidates], dtype=float)
    return Continued(FoundTarget(realization, slots, worth), TargetReason.CONTINUED)


def is_too_old(stored: StoredTarget, snapshot: Snapshot) -> bool:
    """Whether too much time has passed since the target was made."""
    return snapshot.now - stored.made_at > TARGET_AGE_MAX


def kept_by(stored: StoredTarget | None, fleet: TargetFleet) -> Bools:
    """Return [node], whether a stored target leaves it: not one that has drifted meanwhile; without a target, all others."""
    drains = {drain.node for drain in stored.drains} if stored is not None else set()
    return np.array([candidate.name not in drains for candidate in fleet.candidates], dtype=bool) & ~fleet.must_go


def awaited_until(held: Sequence[Candidate], disruption_pass: DisruptionPass) -> datetime | None:
    """Return until when a target waits for these nodes; None if their budgets may stay closed.

    See docs/engineering/handbook/fleet-target.md.

    The drain of a node and the move of a workload may close a budget that selects one of their pods for `STARTED_WITHIN`. A
    node that drains for longer may do so for days.
    """
    snapshot, budgets = disruption_pass.snapshot, disruption_pass.budgets.pod_budgets
    kept = [pod for candidate in held for pod in candidate.state.pods if budgets.not_evicted_now(pod)]
    closed = BudgetIndex({(b.namespace, b.name): b for pod in kept for b in budgets.guards(pod)}.values())
    moved = {name: workload.moved_at for name, workload in snapshot.moved_workloads.items()}
    begun = [moved[pod.workload] for pod in snapshot.pods if pod.workload in moved and closed.selecting(pod)]
    begun += [
        at
        for state in disruption_pass.states
        if (at := _drained_at(state, snapshot)) is not None and any(map(closed.selecting, state.pods))
    ]
    ends = [at + STARTED_WITHIN for at in begun if abs(snapshot.now - at) < STARTED_WITHIN]
    return max(ends, default=None)


def awaited_budgets(disruption_pass: DisruptionPass, fleet: TargetFleet) -> frozenset[tuple[str, str]]:
    """Return (NodePool, reason) of the budgets for which the current target waits, since leaving nodes use them up; else none.

    It waits if that is so for all nodes that it drains: no command of it could start, and it cannot be evaluated, since the
    places of the pods of leaving nodes are unknown until these are gone. Nodes that have drifted are part of it, with or
    without a stored target. Both reasons of its NodePools count, so that nothing is searched in vain for their other nodes.

    Without a stored target no time bounds the wait: it keeps no node that budgets would let go.
    """
    snapshot, before = disruption_pass.snapshot, disruption_pass.snapshot.stored_target
    if before is not None and (is_too_old(before, snapshot) or before.settings != settings_digest(snapshot)):
        return frozenset()  # a drain may be blocked for days
    keeps = kept_by(before, fleet)
    going = {(c.pool.name, fleet.reason(node)) for node, c in enumerate(fleet.candidates) if not keeps[node]}
    pools = frozenset(pool for pool, _ in going)
    leaving = (s for s in disruption_pass.states if s.node_pool in pools and s.is_marked_for_deletion(snapshot))
    if not disruption_pass.commands and not any(leaving):
        # Closed budgets may stay closed for days, and a new target may have nodes of other NodePools.
        return frozenset()
    both = (TerminationReason.UNDERUTILIZED, TerminationReason.DRIFTED)
    spent = frozenset((p, r) for p in pools for r in both if disruption_pass.budgets.left(p, r) == 0)
    return spent if going <= spent else frozenset()


def _promised(stored: StoredTarget, fleet: TargetFleet) -> int:
    """Return the saving that the target planned for the nodes that are not gone yet, in nano-dollars per hour."""
    context = fleet.planner.context
    present = {node.name for node in context.existing_nodes if not node.is_leaving}
    return stored.saving - sum(drain.price for drain in stored.drains if drain.node not in present)


def _drained_at(state: StateNode, snapshot: Snapshot) -> datetime | None:
    """Return when the drain of the node began, None if it has not begun."""
    if not state.is_marked_for_deletion(snapshot):
        return None
    evicted = snapshot.evicted_nodes.get(state.claim_name)
    if evicted is not None:
        return evicted.at
    moments = [obj.deleted_at for obj in (state.node, state.claim) if obj is not None and obj.deleted_at is not None]
    return min(moments, default=None)


def stored(
    fleet: TargetFleet,
    chosen: FoundTarget,
    claims: tuple[PlannedClaim, ...],
    snapshot: Snapshot,
    before: StoredTarget | None,
) -> StoredTarget:
    """Return a target in its stored form; `before` is the one that it continues."""
    realization = chosen.realization
    kinds, pods = PodKinds(), {pod.key: pod for pods in fleet.rows.pods for pod in pods}
    kind_of = {key: kinds.of(pods[key]) for key in realization.results.displaced if key in pods}
    slots: dict[tuple[str, str], int] = {}
    for binding in realization.results.plan.bindings:
        if binding.pod in kind_of:
            place = (kind_of[binding.pod], binding.node)
            slots[place] = slots.get(place, 0) + 1
    drains = [
        StoredDrain(candidate.name, int(fleet.prices[node]), round(float(chosen.worth[node])))
        for node, candidate in enumerate(fleet.candidates)
        if not realization.keeps[node]
    ]
    return StoredTarget(
        made_at=snapshot.now if before is None else before.made_at,
        settings=settings_digest(snapshot),
        drains=tuple(drains),
        kept_price=_kept_price(fleet, realization.keeps),
        kept_by_pool=_kept_by_pool(fleet, realization.keeps),
        drained_price=sum(drain.price for drain in drains),
        new_price=sum(claim.price for claim in claims),
        slots=tuple(StoredSlots(kind, node, count) for (kind, node), count in sorted(slots.items())),
        new_nodes=tuple(_stored_new_node(claim, kind_of) for claim in claims),
    )


def joined(waiting: StoredTarget | None, made: StoredTarget | None, fleet: TargetFleet) -> StoredTarget | None:
    """Return a target that waits and one of other nodes, made beside it, as one; `fleet` has the candidates of both."""
    if waiting is None or made is None:
        return waiting or (made and _with_kept(made, fleet))
    slots: Counter[tuple[str, str]] = Counter()
    for slot in (*waiting.slots, *made.slots):
        slots[slot.kind, slot.node] += slot.pods
    both = msgspec.structs.replace(waiting, drains=(*waiting.drains, *made.drains))
    return msgspec.structs.replace(
        _with_kept(both, fleet),
        drained_price=waiting.drained_price + made.drained_price,
        new_price=waiting.new_price + made.new_price,
        slots=tuple(StoredSlots(kind, node, count) for (kind, node), count in sorted(slots.items())),
        new_nodes=(*waiting.new_nodes, *made.new_nodes),
    )


def _with_kept(target: StoredTarget, fleet: TargetFleet) -> StoredTarget:
    """Return the target with the price of all nodes of the fleet that it leaves."""
    keeps = kept_by(target, fleet)
    return msgspec.structs.replace(
        target, kept_price=_kept_price(fleet, keeps), kept_by_pool=_kept_by_pool(fleet, keeps)
    )


def _kept_price(fleet: TargetFleet, keeps: Bools) -> int:
    """Return the price of the nodes that a target leaves, which a later pass compares."""
    return int(fleet.prices[keeps].sum())


def _kept_by_pool(fleet: TargetFleet, keeps: Bools) -> dict[str, int]:
    """Return NodePool → the price of its nodes that a target leaves."""
    kept: Counter[str] = Counter()
    for candidate, price, stays in zip(fleet.candidates, fleet.prices, keeps, strict=True):
        kept[candidate.pool.name] += int(price) if stays else 0
    return dict(sorted(kept.items()))


def _stored_new_node(claim: PlannedClaim, kind_of: Mapping[str, str]) -> StoredNewNode:
    return StoredNewNode(name=claim.name, pods=_counted(claim, kind_of), price=claim.price)


def _counted(claim: PlannedClaim, kind_of: Mapping[str, str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for key in claim.pods:
        if key in kind_of:
            counts[kind_of[key]] = counts.get(kind_of[key], 0) + 1
    return dict(sorted(counts.items()))


CHANGES_MAX: Final = 8
"""The most changes of a target that is partly not allowed; more nodes stay after each."""

CHANGE_SHARE: Final = 0.5
"""Share of the remaining search budget for the new packing after each change."""


LEFT_FOR_WAVES: Final = 0.25
"""Share of the time that the search leaves for what follows it: the first wave, and where its pods land."""


SINGLE_TRIES: Final = 12
"""The most commands by Karpenter's methods that are tried until kube-scheduler would place all pods of one."""


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
        self._objections: dict[str, Refusal] = {}
        self._without_wave: TargetFleet | None = None
        self._waiting_drains: frozenset[str] = frozenset()
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
        target, first = self._continued(fleet, search)
        keeps = target.realization.keeps if target is not None else None
        if not first and not (target is not None and self._awaits_evictions(target)):
            if fleet.held.any():  # a new target leaves nodes that PodDisruptionBudgets hold
                fleet = target_fleet(self._pass)
                if fleet is None:
                    return []
                search = TargetSearch(fleet, options.moves, is_gated=self._is_gated)
            target, first, keeps = self._made(fleet, search)
            self._without_wave = None if first else fleet
        rest = TargetWaveResult(
            keeps=keeps,
            worth=target.worth if target is not None else None,
            objections=self._objections,
            goes_on=bool(first) and not options.ignore_budgets,
        )
        refuse_the_rest(self._pass, search, rest)
        return first

    def single(self) -> list[Command]:
        """Return a command by Karpenter's methods if no part of the target that `commands` made for a small fleet may begin."""
        fleet = self._without_wave
        if fleet is None or len(fleet.candidates) > SMALL:
            return []
        by_choice = [c for c, must_go in zip(fleet.candidates, fleet.must_go, strict=True) if not must_go]
        moves = fleet.rows.problem.move_prices.tolist()
        prices = dict(zip((c.name for c in fleet.candidates), moves, strict=True))
        candidates = {candidate.name: candidate for candidate in by_choice}
        paying = single_commands(self._pass, by_choice, prices, WaveBudgets(self._pass).has_room_for)
        for command in paying[:SINGLE_TRIES]:
            landing = self._landing([command], ())
            if landing.commands:
                self.kept = None
                return list(landing.commands)
            for node, pod in landing.stays.items():
                self._pass.refuse(candidates[node], PlaceLost(pod))
        return []

    def _made(self, fleet: TargetFleet, search: TargetSearch) -> tuple[Target | None, list[Command], Bools | None]:
        """A new target, None for none, its first wave, and [node], which nodes stay in the end."""
        self._objections = {}
        if not self._pass.snapshot.options.ignore_budgets:  # else no places are predicted
            self._budget = self._budget.leaving_time(LEFT_FOR_WAVES)
        target = self._target(fleet, search, search.found(self._budget))
        first = self._first_commands(target) if target is not None else []
        keeps = target.realization.keeps if target is not None else None
        if target is None or first or self._pass.snapshot.options.ignore_budgets:
            return target, first, keeps
        # The first wave does not pay on its own. The best-paying nodes among as many as may go now are tried
        # instead.
        drains_max = {c.pool.name: self._most(c.pool.name) for c in fleet.candidates}
        now = self._target(fleet, search, search.found(self._budget, drains_max))
        first, keeps = (self._first_commands(now), now.realization.keeps) if now is not None else ([], None)
        only_together = ~target.realization.keeps & (True if keeps is None else keeps)
        pairs = zip(fleet.candidates, only_together, strict=True)
        self._objections |= dict.fromkeys((c.name for c, is_left in pairs if is_left), TOGETHER_ONLY)
        return now, first, keeps

    def _beside(self, waiting: frozenset[tuple[str, str]], fleet: TargetFleet, search: TargetSearch) -> list[Command]:
        """Return the commands of other nodes while the current target waits for budgets, given as (NodePool, reason)."""
        before, options = self._pass.snapshot.stored_target, self._pass.snapshot.options
        self.kept, self.reason = before, TargetReason.CONTINUED
        self._waiting_drains = frozenset(drain.node for drain in before.drains) if before is not None else frozenset()
        stay = kept_by(before, fleet)
        waits_too = waits_for_budgets(fleet, stay, self._pass)
        refuse_the_rest(self._pass, search, TargetWaveResult(keeps=stay, objections=waits_too))
        others = target_fleet(self._pass, besides=waiting)
        if others is None:
            return []
        self._pass.names.take(before.new_nodes if before is not None else ())
        beside = TargetSearch(others, options.moves, is_gated=self._is_gated)
        target, first, keeps = self._made(others, beside)
        worth = target.worth if target is not None else None
        rest = TargetWaveResult(keeps=keeps, worth=worth, objections=self._objections, goes_on=bool(first))
        refuse_the_rest(self._pass, beside, rest)
        self.kept = joined(before, self.kept, fleet) if first else before
        return first

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
        limits = [self._pass.budgets.left(pool, reason) for reason in reasons]
        return max(len(self._pass.survey.candidates) if number is None else number for number in limits)

    def _first_commands(self, target: Target) -> list[Command]:
        planned_waves = target_waves(target, self._pass, is_gated=self._is_gated)
        self._objections = dict(planned_waves.objections)
        if planned_waves.saved and self.kept is not None:
            self.kept = msgspec.structs.replace(self.kept, new_price=self.kept.new_price - planned_waves.saved)
        return self._landed(planned_waves.commands, target)

    def _landed(self, commands: list[Command], target: Target) -> list[Command]:
        """Return the wave's commands with the places that kube-scheduler will choose.

        With budgets ignored, nobody carries the waves out one by one, and all have the target's own places. A large fleet whose
        nodes would all stay goes on as planned: pods without a place get a node.
        """
        going = {node for command in commands for node in command.nodes}
        landing = self._landing(commands, (target.drains | self._waiting_drains) - going)
        if landing.commands or len(target.fleet.candidates) <= SMALL:
            self._objections |= {node: PlaceLost(pod) for node, pod in landing.stays.items()}
            return list(landing.commands)
        return commands

    def _landing(self, commands: list[Command], later: Collection[str]) -> Landing:
        if self._pass.snapshot.options.ignore_budgets or not any(command.moves for command in commands):
            return Landing(tuple(commands))
        prices = {candidate.name: candidate.price for candidate in self._pass.survey.candidates}
        return landed(commands, self._pass.snapshot, later, prices)

    def _target(
        self, fleet: TargetFleet, search: TargetSearch, chosen: FoundTarget, before: StoredTarget | None = None
    ) -> Target | None:
        """Return the choice as a complete target, None if all nodes stay; `before` is the target that it continues."""
        realization = chosen.realization
        for _ in range(CHANGES_MAX):
            if realization.keeps.all():
                return None
            staying, claims = self._staying(fleet, realization)
            if staying is None:
                named = self._pass.names.named_apart(claims)
                self.kept = stored(fleet, replace(chosen, realization=realization), named, self._pass.snapshot, before)
                return Target(fleet, realization, named, chosen.worth)
            portion = self._budget.portion(CHANGE_SHARE)
            realization = search.realizations.of(realization.keeps | staying, chosen.slots, portion)
            self._budget.steps += portion.steps
        return None

    def _staying(self, fleet: TargetFleet, realization: Realization) -> tuple[Bools | None, tuple[PlannedClaim, ...]]:
        """Return [node], which further nodes have to stay (None for none), and the new nodes narrowed to what may launch."""
        by_choice = ~realization.keeps & ~fleet.must_go
        price = int(fleet.prices[by_choice].sum())
        going = [c for c, goes in zip(fleet.candidates, by_choice, strict=True) if goes]
        drifted = [c for c, goes in zip(fleet.candidates, ~realization.keeps & fleet.must_go, strict=True) if goes]
        claims = narrowed_claims(
            realization.claims, None if drifted else price, _least_prices(going), self._pass.snapshot
        )
        if claims is None:
            return (by_choice if by_choice.any() else ~realization.keeps), ()
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
    prices: dict[str, int] = {}
    for candidate in going if 1 < len(going) <= SMALL else ():
        if candidate.instance_type is not None:
            name = candidate.instance_type.name
            prices[name] = min(candidate.price, prices.get(name, candidate.price))
    return prices
