"""Drift of nodes whose replacement needs their own place: one node of a full reservation goes first (docs/adr/0119)."""

from __future__ import annotations

from typing import Final

import msgspec

from core import labels
from core.catalogue.node_class import CAPACITY_BLOCK
from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.simulation import Simulator
from core.model.catalogue import InstanceType, Offering
from core.model.node_claim import INITIALIZED
from core.model.plan import Command
from core.model.snapshot import Snapshot
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason
from core.scheduling.planner import Planner

METHOD: Final = "terminate-first"

TRIES: Final = 5
"""The most nodes that one pass tries.

Each may plan twice for the whole cluster, and the next mostly fails for the same reason.
"""


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for the first drifted node, by name, whose pods find a place only in its own reservation.

    Its pods wait until a new node is launched into the place. Without this, the node would stay drifted forever (as in
    Karpenter).
    """
    tries = 0
    for candidate in disruption_pass.candidates(TerminationReason.DRIFTED):
        refusal = disruption_pass.refusals.get(candidate.name)
        if not candidate.drift or candidate.pool.is_static or refusal is None:
            continue
        if refusal.reason != NodeReason.PODS_UNSCHEDULABLE or disruption_pass.is_exhausted:
            continue
        if any(command.reason == TerminationReason.DRIFTED for command in disruption_pass.commands):
            return []  # one at a time: a leaving node may change what this one needs
        tries += 1
        if objection(candidate, disruption_pass.snapshot):
            if tries == TRIES:
                return []
            continue
        return [
            Command(
                reason=TerminationReason.DRIFTED,
                method=METHOD,
                nodes=(candidate.name,),
                claims=(candidate.claim.name,),
                savings=candidate.price,
            )
        ]
    return []


def objection(candidate: Candidate, snapshot: Snapshot) -> str:
    """Return why the node may not be removed before it is replaced; empty if it may.

    Its reservation must be full and, without this node, have room for the pods even if others wait; and all other nodes of the
    NodePool must work, so that nodes go one at a time.
    """
    reservation = candidate.state.labels.get(labels.RESERVATION_ID, "")
    if candidate.state.labels.get(labels.CAPACITY_TYPE) != labels.RESERVED or not reservation:
        return "it is in no capacity reservation"
    own = [claim for claim in snapshot.node_claims if claim.node_pool == candidate.pool.name]
    going = set(snapshot.marked_for_deletion)
    if any(c.deleted_at is not None or not c.is_true(INITIALIZED) or c.name in going for c in own):
        return f"another node of NodePool {candidate.pool.name} goes or comes"
    freed = _with_place(snapshot, candidate, reservation)
    if freed is None:
        return f"capacity reservation {reservation} is not full, or cannot be launched into again"
    now, then = Simulator(Planner(snapshot)), Simulator(Planner(freed))
    if len(then.base.plan.unschedulable) < len(now.base.plan.unschedulable):
        return f"a pod that waits would take the place in capacity reservation {reservation}"
    return then.simulate([candidate], consolidation=False).stranded


def _with_place(snapshot: Snapshot, candidate: Candidate, reservation: str) -> Snapshot | None:
    """Return the snapshot with one more place in the reservation; None if it has free places or cannot be launched into."""
    name = candidate.claim.node_class.name if candidate.claim.node_class is not None else ""
    types = snapshot.catalogue.types_for(name)
    places = [offering for one in types for offering in one.offerings if offering.reservation_id == reservation]
    if not places or any(o.reservation_capacity or o.reservation_type == CAPACITY_BLOCK for o in places):
        return None
    changed = tuple(_with_offering(one, reservation) for one in types)
    catalogue = snapshot.catalogue
    if name in catalogue.by_node_class:
        by_class = {**catalogue.by_node_class, name: changed}
        return msgspec.structs.replace(snapshot, catalogue=msgspec.structs.replace(catalogue, by_node_class=by_class))
    return msgspec.structs.replace(snapshot, catalogue=msgspec.structs.replace(catalogue, default=changed))


def _with_offering(one: InstanceType, reservation: str) -> InstanceType:
    if all(offering.reservation_id != reservation for offering in one.offerings):
        return one
    return msgspec.structs.replace(one, offerings=tuple(_freed(offering, reservation) for offering in one.offerings))


def _freed(offering: Offering, reservation: str) -> Offering:
    if offering.reservation_id != reservation:
        return offering
    return msgspec.structs.replace(offering, available=True, reservation_capacity=1)
