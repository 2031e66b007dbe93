"""Checks whether a stored target still holds, and continues it or waits. Only the scheduler runs, no linear program."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, NamedTuple

import msgspec
import numpy as np

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.stored_targets import PodKinds
from core.disruption.target.move_price import STARTED_WITHIN, settings_digest
from core.disruption.target.planned_slots import StoredTargetSlots
from core.disruption.target.realization import Realizations
from core.disruption.target.target_fleet import TargetFleet
from core.disruption.target.target_search import FoundTarget
from core.model.plan import PlannedClaim, StoredDrain, StoredNewNode, StoredSlots, StoredTarget
from core.model.snapshot import TARGET_AGE_MAX, Snapshot
from core.model.state_node import StateNode
from core.packing.problem import Bools
from core.pods.budget_index import BudgetIndex
from core.reasons.target import TargetReason
from core.reasons.termination import TerminationReason

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
    found = realizations.of(keeps, slots, None)
    saved = int(fleet.prices[~found.keeps].sum()) - sum(claim.price for claim in found.claims)
    part, whole = SAVING_LOST
    if saved * whole < _promised(stored, fleet) * (whole - part) or found.keeps.all() or found.displaces:
        return Continued(None, TargetReason.SAVES_LESS)
    worth = np.array([drains[c.name].worth if c.name in drains else 0 for c in fleet.candidates], dtype=float)
    return Continued(FoundTarget(found, slots, worth), TargetReason.CONTINUED)


def is_too_old(stored: StoredTarget, snapshot: Snapshot) -> bool:
    """Whether too much time has passed since the target was made."""
    return snapshot.now - stored.made_at > TARGET_AGE_MAX


def kept_by(stored: StoredTarget | None, fleet: TargetFleet) -> Bools:
    """Return [node], whether a stored target leaves it: not one that has drifted meanwhile; without a target, all others."""
    drains = {drain.node for drain in stored.drains} if stored is not None else set()
    return np.array([candidate.name not in drains for candidate in fleet.candidates], dtype=bool) & ~fleet.must_go


def awaited_until(held: Sequence[Candidate], disruption_pass: DisruptionPass) -> datetime | None:
    """Return until when a target waits for these nodes; None if their budgets may stay closed (docs/adr/0260).

    The drain of a node and the move of a workload may close a budget that selects one of their pods for `STARTED_WITHIN`. A
    node that drains for longer may do so for days.
    """
    snapshot, budgets = disruption_pass.snapshot, disruption_pass.budgets.pod_budgets
    kept = [pod for candidate in held for pod in candidate.state.pods if budgets.not_evicted_now(pod)]
    closed = BudgetIndex({(b.namespace, b.name): b for pod in kept for b in budgets.guards(pod)}.values())
    moved = {name: found.moved_at for name, found in snapshot.moved_workloads.items()}
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
    moments = [one.deleted_at for one in (state.node, state.claim) if one is not None and one.deleted_at is not None]
    return min(moments, default=None)


def stored(
    fleet: TargetFleet,
    found: FoundTarget,
    claims: tuple[PlannedClaim, ...],
    snapshot: Snapshot,
    before: StoredTarget | None,
) -> StoredTarget:
    """Return a target in its stored form; `before` is the one that it continues."""
    realization = found.realization
    kinds, pods = PodKinds(), {pod.key: pod for pods in fleet.rows.pods for pod in pods}
    kind_of = {key: kinds.of(pods[key]) for key in realization.results.displaced if key in pods}
    slots: dict[tuple[str, str], int] = {}
    for binding in realization.results.plan.bindings:
        if binding.pod in kind_of:
            place = (kind_of[binding.pod], binding.node)
            slots[place] = slots.get(place, 0) + 1
    drains = [
        StoredDrain(candidate.name, int(fleet.prices[node]), round(float(found.worth[node])))
        for node, candidate in enumerate(fleet.candidates)
        if not realization.keeps[node]
    ]
    return StoredTarget(
        made_at=snapshot.now if before is None else before.made_at,
        settings=settings_digest(snapshot),
        drains=tuple(drains),
        kept_price=_kept_price(fleet, realization.keeps),
        drained_price=sum(drain.price for drain in drains),
        new_price=sum(claim.price for claim in claims),
        slots=tuple(StoredSlots(kind, node, count) for (kind, node), count in sorted(slots.items())),
        new_nodes=tuple(StoredNewNode(name=claim.name, pods=_counted(claim, kind_of)) for claim in claims),
    )


def joined(waiting: StoredTarget | None, made: StoredTarget | None, fleet: TargetFleet) -> StoredTarget | None:
    """Return a target that waits and one of other nodes, made beside it, as one; `fleet` has the candidates of both."""
    if waiting is None or made is None:
        return waiting or (made and msgspec.structs.replace(made, kept_price=_kept_price(fleet, kept_by(made, fleet))))
    slots: Counter[tuple[str, str]] = Counter()
    for slot in (*waiting.slots, *made.slots):
        slots[slot.kind, slot.node] += slot.pods
    both = msgspec.structs.replace(waiting, drains=(*waiting.drains, *made.drains))
    return msgspec.structs.replace(
        both,
        kept_price=_kept_price(fleet, kept_by(both, fleet)),
        drained_price=waiting.drained_price + made.drained_price,
        new_price=waiting.new_price + made.new_price,
        slots=tuple(StoredSlots(kind, node, count) for (kind, node), count in sorted(slots.items())),
        new_nodes=(*waiting.new_nodes, *made.new_nodes),
    )


def _kept_price(fleet: TargetFleet, keeps: Bools) -> int:
    """Return the price of the nodes that a target leaves, which a later pass compares."""
    return int(fleet.prices[keeps].sum())


def _counted(claim: PlannedClaim, kind_of: Mapping[str, str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key in claim.pods:
        if key in kind_of:
            found[kind_of[key]] = found.get(kind_of[key], 0) + 1
    return dict(sorted(found.items()))
