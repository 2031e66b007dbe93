"""Karpenter's methods of disruption: drift, emptiness, several nodes, repair, one node, static drift, terminate first.

See docs/engineering/handbook/capacity-reservations.md.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from core import labels
from core.calendars import why_closed
from core.catalogue.node_class import CAPACITY_BLOCK
from core.disruption.candidate import Candidate, rejecting_pool
from core.disruption.command import Independence
from core.disruption.consolidation import consolidated, underutilized
from core.disruption.deletion_costs import disruption_cost
from core.disruption.disruption_pass import DisruptionPass, Simulator, short_lived
from core.disruption.node_health import HealthCheck
from core.disruption.static_capacity import template_claim
from core.model.catalogue import InstanceType, Offering
from core.model.node_pool import NodePool
from core.model.plan import INITIALIZED, Command
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.reasons.code import Refusal, Stated, TerminationReason
from core.reasons.nodes import (
    AwaitsReplacement,
    DeletionBelowMoves,
    ManyUnhealthy,
    NodeReason,
    NoRoomForReplacement,
    NotToRepair,
    NoTypeToLaunch,
    ShrinksFirst,
)
from core.reasons.runs import NOT_RESERVED, PlaceWanted, PoolChanges, ReservationNotFull
from core.scheduling.planner import Planner

# Drift: replaces nodes that no longer match their pool, whatever the cost (docs/engineering/handbook/drift.md).


def find_drifted(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for each drifted node about which no target decides, see `_found`."""
    return _found(disruption_pass, [c for c in _drifted(disruption_pass) if not disruption_pass.goes_with_target(c)])


def find_left(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for each drifted node, once the target has found no place for any.

    A single node's pods may go where those of a target do not: to nodes that have drifted as well.
    """
    waiting = [candidate for candidate in _drifted(disruption_pass) if disruption_pass.goes_with_target(candidate)]
    for candidate in waiting:
        disruption_pass.refusals.pop(candidate.name, None)
    return _found(disruption_pass, waiting)


def _drifted(disruption_pass: DisruptionPass) -> list[Candidate]:
    return [c for c in disruption_pass.survey.candidates if c.drift and not c.pool.is_static]


def _found(disruption_pass: DisruptionPass, drifted: list[Candidate]) -> list[Command]:
    """Return a command for each of the nodes that budgets let go and whose pods find a place, as far as independent.

    Empty nodes come first, then nodes in the order in which they drifted. The rollout of a pool lets its first node go alone,
    and none while it is stopped. Pods go to nodes that have drifted, expire soon or are drained by the stored target only if no
    other node can hold them: they would have to move again. Commands of one call are found in the same snapshot; one that
    depends on another waits for the next call. One whose pods take the place of a pod without a node comes alone, once there is
    no other: that pod's new place may be a node that another command takes.
    """
    closed = short_lived(disruption_pass)
    reservation = disruption_pass.budgets.reservation()
    together = Independence(disruption_pass.snapshot, disruption_pass.default_spreads)
    drifting: list[Command] = []
    last: Command | None = None
    for candidate in sorted(drifted, key=lambda c: _order(c, disruption_pass)):
        if disruption_pass.is_exhausted:
            break
        # A node that was refused stays refused: the cluster has only become fuller since.
        if candidate.name in disruption_pass.refusals or not candidate.may_drift:
            continue
        if not reservation.allows(candidate, TerminationReason.DRIFTED) or not disruption_pass.passes_rollout(
            candidate, drifting
        ):
            continue
        replaced = disruption_pass.replaced(candidate, TerminationReason.DRIFTED, "drift", closed=closed)
        if replaced is None:
            continue
        if replaced.takes_place:
            last = last or replaced.command
            continue
        if not together.takes(replaced.command, candidate):
            continue
        reservation.take(candidate, TerminationReason.DRIFTED)
        disruption_pass.names.take(replaced.command.replacements)
        drifting.append(replaced.command)
    if not drifting and last is not None:
        disruption_pass.names.take(last.replacements)
        return [last]
    return drifting


def _order(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[bool, float, str]:
    since = candidate.drifted_at or disruption_pass.snapshot.now
    return bool(candidate.pods), since.timestamp(), candidate.name


# Emptiness: deletes nodes without pods that need a new place.


def find_empty(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for each empty node that budgets let go, highest ratio of price to disruption first, ties by name.

    A node of a group that cannot be complete, or is gone, does not wait for consolidateAfter: no pod of it is expected there.
    """
    now, kept = disruption_pass.snapshot.now, disruption_pass.buffer_nodes
    empty = [
        c
        for c in disruption_pass.candidates(TerminationReason.EMPTY)
        if c.is_empty and not c.pool.is_static and c.name not in kept
        if c.is_consolidatable(now) or disruption_pass.is_half_bought(c)
    ]
    ordered = sorted(empty, key=lambda c: (-c.savings_ratio, c.name))
    return [
        Command(
            reason=TerminationReason.EMPTY, method="emptiness", nodes=(c.name,), claims=(c.claim.name,), savings=c.price
        )
        for c in disruption_pass.budgets.within(ordered, TerminationReason.EMPTY)
    ]


# Multi-node consolidation: replaces several nodes by one cheaper node, or by none.


NODES_MAX: Final = 101
"""Most nodes of one command: Karpenter's 100 counts from zero."""


def find_multi_node(disruption_pass: DisruptionPass) -> list[Command]:
    """Find the longest prefix of the best candidates that can go together: all of them, or the result of bisection (Karpenter).

    Bisection assumes that a prefix can go if a longer one can. The longest is tried first: its replacement may save money where
    the next smaller instance type costs as much as the nodes of a shorter prefix.
    """
    ordered = underutilized(disruption_pass)
    candidates = disruption_pass.budgets.within_one_command(ordered, TerminationReason.UNDERUTILIZED)
    longest = min(len(candidates), NODES_MAX)
    if longest < 2 or disruption_pass.is_exhausted:
        return []
    command = consolidated(candidates[:longest], disruption_pass, method="multi")
    if not isinstance(command, Refusal):
        return [command]
    low, high = 2, longest
    best: Command | None = None
    while low <= high and not disruption_pass.is_exhausted:
        count = (low + high) // 2
        if count < longest:
            command = consolidated(candidates[:count], disruption_pass, method="multi")
        if count == longest or isinstance(command, Refusal):
            high = count - 1
        else:
            best, low = command, count + 1
    return [best] if best is not None else []


# Node repair: replaces nodes that have been unhealthy for long, within the budgets for it
# (docs/engineering/handbook/expiry-and-repair.md).


REPAIR: Final = "repair"


def find_unhealthy(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for the unhealthy node that is due longest, if it may go and its pods find a place, else the next.

    Its pods go to nodes that leave later only where no other node can hold them. None while the feature gate NodeRepair is off.
    """
    snapshot = disruption_pass.snapshot
    if not snapshot.options.feature_gates.node_repair:
        return []
    health = HealthCheck(disruption_pass.states, snapshot.now)
    closed = short_lived(disruption_pass)
    for candidate in _due(disruption_pass, health):
        name, pool = candidate.name, candidate.pool.name
        if name in disruption_pass.repair_refusals:
            continue
        if do_not_repair(candidate):
            disruption_pass.refuse_repair(candidate, NotToRepair(name))
        elif health.is_widespread(pool):
            disruption_pass.refuse_repair(candidate, ManyUnhealthy(pool))
        elif (refusal := disruption_pass.budgets.repair_objection(candidate)) is not None:
            disruption_pass.refuse_repair(candidate, refusal)
        else:
            command = _repair(candidate, disruption_pass, closed)
            if command is not None:
                return [command]
            disruption_pass.refuse_repair(candidate, disruption_pass.refusals[name])
    return []


def do_not_repair(candidate: Candidate) -> bool:
    """Whether the node or its claim has the annotation that forbids repair."""
    node = candidate.state.node
    written = (candidate.claim.annotations, node.annotations if node is not None else {})
    return any(annotations.get(labels.DO_NOT_REPAIR) == "true" for annotations in written)


def _due(disruption_pass: DisruptionPass, health: HealthCheck) -> list[Candidate]:
    """Return the nodes whose repair is due, the one that waits longest first, then by disruption cost and name (Karpenter)."""
    due, snapshot = [], disruption_pass.snapshot
    for candidate in disruption_pass.survey.by_name.values():
        illness = health.illness(candidate.state)
        if illness is not None:
            pods, gates = candidate.state.pods, snapshot.options.feature_gates
            cost = disruption_cost(pods, candidate.claim, snapshot.now, gates)
            due.append((illness.due_at, cost, candidate.name, candidate))
    return [candidate for *_, candidate in sorted(due, key=lambda entry: entry[:3])]


def _repair(candidate: Candidate, disruption_pass: DisruptionPass, closed: Collection[str]) -> Command | None:
    """Return the command that replaces an unhealthy node; None, with a refusal, if nothing can replace it."""
    if candidate.pool.is_static:
        is_first = disruption_pass.snapshot.options.feature_gates.terminate_first_repair
        return _static_command(candidate, disruption_pass, method=REPAIR, terminates_first=is_first)
    replaced = disruption_pass.replaced(candidate, TerminationReason.UNHEALTHY, REPAIR, closed=closed)
    if replaced is not None:
        return replaced.command
    if disruption_pass.snapshot.options.feature_gates.terminate_first_repair and not objection(
        candidate, disruption_pass.snapshot
    ):
        disruption_pass.refusals.pop(candidate.name, None)
        return _without_replacement(candidate, TerminationReason.UNHEALTHY, TERMINATE_FIRST)
    return None


# Single-node consolidation: deletes one node, or replaces it by a cheaper one.


def find_single_node(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for the first candidate for which there is one.

    Pools take turns, so that a large one does not starve the others.
    """
    for candidate in _in_turns(underutilized(disruption_pass)):
        if disruption_pass.is_exhausted:
            break
        if (
            candidate.name in disruption_pass.refusals
        ):  # a refused node stays refused: the cluster has only become fuller since
            continue
        pool = rejecting_pool([candidate], candidate.price, disruption_pass.totals)
        if pool:  # deletion saves the most; if that is not worthwhile, no replacement is
            disruption_pass.refuse(candidate, DeletionBelowMoves(pool))
            continue
        command = consolidated([candidate], disruption_pass, method="single")
        if not isinstance(command, Refusal):
            return [command]
        disruption_pass.refuse(candidate, command)
    return []


def _in_turns(candidates: list[Candidate]) -> list[Candidate]:
    by_pool: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_pool.setdefault(candidate.pool.name, []).append(candidate)
    turns = [(place, name, c) for name, pool_candidates in by_pool.items() for place, c in enumerate(pool_candidates)]
    return [candidate for _, _, candidate in sorted(turns, key=lambda turn: turn[:2])]


# Drift of static pools: replaces each drifted node by one from the template, regardless of its pods.


STATIC_DRIFT: Final = "static-drift"


def find_static_drift(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for the first drifted node of a static pool that may be replaced, by name.

    A pool with surplus nodes shrinks first. `limits.nodes` must have room for the replacement beside the old node (Karpenter).
    Without that room, the old node goes first if all others work, with the gates TerminateFirstDrift and StaticCapacity: the
    latter restores the number of nodes.
    """
    for candidate in disruption_pass.candidates(TerminationReason.DRIFTED):
        if not candidate.drift or not candidate.pool.is_static or candidate.name in disruption_pass.refusals:
            continue
        if not disruption_pass.passes_rollout(candidate):
            continue
        command = _static_command(
            candidate,
            disruption_pass,
            method=STATIC_DRIFT,
            terminates_first=disruption_pass.snapshot.options.feature_gates.terminate_first_drift,
        )
        if command is not None:
            return [command]
    return []


def _static_command(
    candidate: Candidate, disruption_pass: DisruptionPass, *, method: str, terminates_first: bool
) -> Command | None:
    """Return the command for a node of a static pool; None, with a refusal, if it cannot go now."""
    reason = TerminationReason.DRIFTED if method == STATIC_DRIFT else TerminationReason.UNHEALTHY
    if terminates_first and _goes_first(candidate, disruption_pass):
        return _without_replacement(candidate, reason, method)
    refusal = _objection(candidate.pool, disruption_pass)
    replacement = None if refusal else template_claim(candidate.pool, disruption_pass.snapshot)
    if replacement is None:
        disruption_pass.refuse(candidate, refusal or NoTypeToLaunch(candidate.pool.name))
        return None
    named = disruption_pass.names.named(replacement)
    bare = _without_replacement(candidate, reason, method)
    return msgspec.structs.replace(bare, replacements=(named,), savings=candidate.price - named.price)


def _without_replacement(candidate: Candidate, reason: TerminationReason, method: str) -> Command:
    return Command(
        reason=reason,
        method=method,
        nodes=(candidate.name,),
        claims=(candidate.claim.name,),
        savings=candidate.price,
    )


def _goes_first(candidate: Candidate, disruption_pass: DisruptionPass) -> bool:
    """Whether a node is removed before it is replaced: its pool is at the limit, and no other node of the pool is missing."""
    pool, snapshot = candidate.pool, disruption_pass.snapshot
    limit = pool.limits.get(quantity.NODES)
    pool_claims = [claim for claim in snapshot.node_claims if claim.node_pool == pool.name]
    if limit is None or not snapshot.options.feature_gates.static_capacity or len(pool_claims) != limit:
        return False
    going = {name for command in disruption_pass.commands for name in command.claims} | set(
        snapshot.marked_for_deletion
    )
    broken = candidate.claim.name if not candidate.state.is_initialized else ""
    works = all(
        claim.deleted_at is None and claim.is_true(INITIALIZED) for claim in pool_claims if claim.name != broken
    )
    return works and len(pool_claims) == pool.replicas and not any(claim.name in going for claim in pool_claims)


def _objection(pool: NodePool, disruption_pass: DisruptionPass) -> Refusal | None:
    """Return why no node of the pool may be replaced now, None if one may."""
    if pool.is_closed:
        return Stated(NodeReason.STATIC_POOL, f"NodePool {pool.name} {why_closed(pool)}")
    pool_claims = [claim for claim in disruption_pass.snapshot.node_claims if claim.node_pool == pool.name]
    running = [claim for claim in pool_claims if claim.deleted_at is None]
    if len(running) > (pool.replicas or 0):
        return ShrinksFirst(pool.name, len(running), pool.replicas)
    limit = pool.limits.get(quantity.NODES)
    if limit is not None and any(
        command.method in (STATIC_DRIFT, REPAIR) and not command.replacements
        for command in disruption_pass.commands_of(pool.name)
    ):
        return AwaitsReplacement(pool.name)
    leaving = sum(
        claim.node_pool == pool.name for command in disruption_pass.commands for claim in command.replacements
    )
    if limit is not None and len(pool_claims) + leaving >= limit:
        return NoRoomForReplacement(pool.name)
    return None


TERMINATE_FIRST: Final = "terminate-first"

TRIES: Final = 5
"""The most nodes that one pass tries.

Each may plan twice for the whole cluster, and the next mostly fails for the same reason.
"""


def find_terminate_first(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for the first drifted node, by name, whose pods find a place only in its own reservation.

    Its pods wait until a new node is launched into the place. Without this, or with the gate TerminateFirstDrift off, the node
    stays drifted.
    """
    if not disruption_pass.snapshot.options.feature_gates.terminate_first_drift:
        return []
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
        return [_without_replacement(candidate, TerminationReason.DRIFTED, TERMINATE_FIRST)]
    return []


def objection(candidate: Candidate, snapshot: Snapshot) -> Refusal | None:
    """Return why the node may not be removed before it is replaced; None if it may.

    Its reservation must be full and, without this node, have room for the pods even if others wait; and all other nodes of the
    NodePool must work, so that nodes go one at a time.
    """
    reservation = candidate.state.labels.get(labels.RESERVATION_ID, "")
    if candidate.state.labels.get(labels.CAPACITY_TYPE) != labels.RESERVED or not reservation:
        return NOT_RESERVED
    pool_claims = [claim for claim in snapshot.node_claims if claim.node_pool == candidate.pool.name]
    going = set(snapshot.marked_for_deletion)
    if any(c.deleted_at is not None or not c.is_true(INITIALIZED) or c.name in going for c in pool_claims):
        return PoolChanges(candidate.pool.name)
    freed = _with_place(snapshot, candidate, reservation)
    if freed is None:
        return ReservationNotFull(reservation)
    now, then = Simulator(Planner(snapshot)), Simulator(Planner(freed))
    if len(then.base.plan.unschedulable) < len(now.base.plan.unschedulable):
        return PlaceWanted(reservation)
    return then.simulate([candidate], consolidation=False).stranded


def _with_place(snapshot: Snapshot, candidate: Candidate, reservation: str) -> Snapshot | None:
    """Return the snapshot with one more place in the reservation; None if it has free places or cannot be launched into."""
    name = candidate.claim.node_class.name if candidate.claim.node_class is not None else ""
    types = snapshot.catalogue.types_for(name)
    places = [
        offering
        for instance_type in types
        for offering in instance_type.offerings
        if offering.reservation_id == reservation
    ]
    if not places or any(o.reservation_capacity or o.reservation_type == CAPACITY_BLOCK for o in places):
        return None
    changed = tuple(_with_offering(instance_type, reservation) for instance_type in types)
    catalogue = snapshot.catalogue
    if name in catalogue.by_node_class:
        by_class = {**catalogue.by_node_class, name: changed}
        return msgspec.structs.replace(snapshot, catalogue=msgspec.structs.replace(catalogue, by_node_class=by_class))
    return msgspec.structs.replace(snapshot, catalogue=msgspec.structs.replace(catalogue, default=changed))


def _with_offering(instance_type: InstanceType, reservation: str) -> InstanceType:
    if all(offering.reservation_id != reservation for offering in instance_type.offerings):
        return instance_type
    return msgspec.structs.replace(
        instance_type, offerings=tuple(_freed(offering, reservation) for offering in instance_type.offerings)
    )


def _freed(offering: Offering, reservation: str) -> Offering:
    if offering.reservation_id != reservation:
        return offering
    return msgspec.structs.replace(offering, available=True, reservation_capacity=1)
