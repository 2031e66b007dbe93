"""Computes how many nodes a static NodePool lacks, and which go if it has too many (Karpenter's static capacity).

A claim that a running command replaces no longer counts; its replacement does. A leaving claim counts against `limits.nodes`
until it is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from core.disruption.candidates.eviction_cost import reschedule_cost
from core.disruption.static_capacity.template_claim import template_claim
from core.model.node_claim import NodeClaim
from core.model.node_pool import NodePool
from core.model.plan import PlannedClaim
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values import quantity
from core.pods.disposition import reschedulable

CLAIMS_A_PLAN: Final = 1000
"""The most claims that one plan creates for a NodePool; the next plan creates more."""


def lacks_nodes(snapshot: Snapshot) -> bool:
    """Whether any static NodePool has fewer nodes than its replicas and may get more; false while the gate is off."""
    is_on = snapshot.options.feature_gates.static_capacity
    return is_on and any(_lacking(snapshot, pool) > 0 for pool in snapshot.node_pools)


def static_claims(snapshot: Snapshot, planned: Sequence[PlannedClaim] = ()) -> tuple[PlannedClaim, ...]:
    """Return the claims that static NodePools lack, made from their templates; none while the gate is off.

    They stay within the free addresses of subnets. `planned`: the claims for pods of the same plan, which go first.
    """
    if not snapshot.options.feature_gates.static_capacity:
        return ()
    lacking = [
        (claim, number)
        for pool in sorted(snapshot.node_pools, key=lambda pool: pool.name)
        if (number := _lacking(snapshot, pool)) and (claim := template_claim(pool, snapshot)) is not None
    ]
    if not lacking or not snapshot.subnet_addresses:
        return tuple(claim for claim, number in lacking for _ in range(number))
    from core.disruption.static_capacity.address_room import AddressRoom

    room = AddressRoom(snapshot, planned)
    return tuple(found for claim, number in lacking for found in room.fitting(claim, number))


def waiting_for_addresses(snapshot: Snapshot, claims: Iterable[PlannedClaim]) -> dict[str, int]:
    """Return static NodePool → how many of its nodes are not among these claims for lack of free addresses."""
    if not snapshot.options.feature_gates.static_capacity or not snapshot.subnet_addresses:
        return {}
    found = Counter(claim.node_pool for claim in claims)
    short = {pool.name: _lacking(snapshot, pool) - found[pool.name] for pool in snapshot.node_pools}
    launchable = (pool.name for pool in snapshot.node_pools if short[pool.name] > 0 and template_claim(pool, snapshot))
    return {name: short[name] for name in sorted(launchable)}


def surplus(snapshot: Snapshot) -> tuple[NodeClaim, ...]:
    """Return the surplus claims of static NodePools, those with the least impact first.

    Claims without a node come first, then nodes without pods, then others by the cost of moving their pods; nodes with a pod
    that must not be disrupted come last (Karpenter). Ties go by name.
    """
    if not snapshot.options.feature_gates.static_capacity:
        return ()
    states = {state.claim.name: state for state in state_nodes(snapshot) if state.claim is not None}
    found: list[NodeClaim] = []
    for pool in sorted(snapshot.node_pools, key=lambda pool: pool.name):
        if not _is_sized(pool):
            continue
        active = _active(snapshot, pool)
        ranked = sorted(active, key=lambda claim: (_missed(states.get(claim.name), snapshot), claim.name))
        found += ranked[: max(0, len(active) - (pool.replicas or 0))]
    return tuple(found)


def _lacking(snapshot: Snapshot, pool: NodePool) -> int:
    """Return how many claims to create for the pool."""
    if not _is_sized(pool) or pool.is_ready is False:
        return 0
    wanted = (pool.replicas or 0) - len(_active(snapshot, pool))
    limit = pool.limits.get(quantity.NODES)
    if limit is not None:
        wanted = min(wanted, limit - len(_claims_of(snapshot, pool)))
    return max(0, min(wanted, CLAIMS_A_PLAN))


def _is_sized(pool: NodePool) -> bool:
    """Whether the pool's number of nodes is maintained."""
    return pool.is_static and not pool.is_observed and not pool.problem and pool.deleted_at is None


def _claims_of(snapshot: Snapshot, pool: NodePool) -> list[NodeClaim]:
    return [claim for claim in snapshot.node_claims if claim.node_pool == pool.name]


def _active(snapshot: Snapshot, pool: NodePool) -> list[NodeClaim]:
    """Return the claims that count toward the replicas."""
    return [
        claim
        for claim in _claims_of(snapshot, pool)
        if claim.deleted_at is None and claim.name not in snapshot.marked_for_deletion
    ]


def _missed(state: StateNode | None, snapshot: Snapshot) -> tuple[int, int]:
    if state is None or state.node is None:
        return (0, 0)
    if any(pod.blocks_disruption(snapshot.now) for pod in state.pods):
        return (3, reschedule_cost(reschedulable(state.pods)))
    pods = reschedulable(state.pods)
    return (2, reschedule_cost(pods)) if pods else (1, 0)
