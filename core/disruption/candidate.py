"""Divides nodes into candidates for disruption and others, each with its reason (Karpenter's rules, in its order)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Final

import msgspec

from core import labels
from core.commitments import paid_price
from core.disruption.deletion_costs import UNIT, reschedule_cost
from core.disruption.drift import DriftCheck
from core.disruption.expiration import kept_together
from core.model import plan
from core.model.catalogue import InstanceType
from core.model.node_pool import BALANCED, NodePool
from core.model.plan import NodeClaim
from core.model.pod import Pod
from core.model.snapshot import Node, Snapshot
from core.model.state_node import StateNode
from core.model.values.taints import protected_until
from core.pod_disruption_budgets import DisruptionBudgets
from core.pods import reschedulable
from core.pools import pool_types, type_of
from core.reasons.code import Refusal, Stated
from core.reasons.nodes import (
    BeingDeleted,
    BudgetKeepsPod,
    NodeNotToDisrupt,
    NodePoolInvalid,
    NodePoolMissing,
    NodePoolObserved,
    NodePoolWithoutTypes,
    NodeReason,
    NodeReboots,
    NodeUnreadable,
    NotJoined,
    PodExpected,
    PodNotToDisrupt,
    PodOfRunningGroup,
    PodUnreadable,
    Uninitialized,
    Unmanaged,
)


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A node that may be disrupted, with the properties that the methods read.

    Attributes:
        instance_type: None where the catalogue does not know it.
        price: Nano-dollars per hour, less what commitments cover.
        pods: The pods that need a new place.
        cost: The disruption cost of moving them, see `eviction_cost`.
        drift: The reason for its drift, empty where it has not drifted.
        drifted_at: When the drift was found, None if no earlier snapshot showed it.
        protected: Why its pods must not be moved. Drift overrides this if the claim has a terminationGracePeriod.
    """

    state: StateNode
    claim: NodeClaim
    pool: NodePool
    instance_type: InstanceType | None
    price: int
    pods: tuple[Pod, ...]
    cost: int
    drift: str
    drifted_at: datetime | None
    protected: tuple[Refusal, ...] = ()

    @property
    def name(self) -> str:
        """The node's name."""
        return self.state.name

    @property
    def capacity_type(self) -> str:
        """Its capacity type, empty where its labels do not name one."""
        return self.state.labels.get(labels.CAPACITY_TYPE, "")

    @property
    def is_empty(self) -> bool:
        """Whether moving its pods costs nothing."""
        return self.cost <= UNIT

    @property
    def may_drift(self) -> bool:
        """Whether its pods allow disruption for drift; with a terminationGracePeriod they do, since it bounds the drain."""
        return not self.protected or self.claim.termination_grace_period is not None

    @property
    def is_priced(self) -> bool:
        """Whether type, zone and capacity type are known, so that a price can be compared."""
        return self.instance_type is not None and bool(self.capacity_type and self.state.labels.get(labels.ZONE))

    def is_consolidatable(self, now: datetime) -> bool:
        """Whether consolidateAfter has passed since a pod last arrived or left, or else since it was initialized."""
        after = self.pool.disruption.consolidate_after
        since = self.claim.idle_since
        return after is not None and (since is None or now - since >= after)

    @property
    def savings_ratio(self) -> Fraction:
        """Price per unit of disruption cost: nodes with a higher ratio go first."""
        return Fraction(self.price, self.cost)


class Survey(msgspec.Struct, frozen=True):
    """All nodes of a snapshot: the candidates, and what keeps the others.

    Attributes:
        blocked: Node → what keeps it, in order; every node that is no candidate.
        drifted: Names of all nodes that have drifted, whether or not they are candidates at this moment.
        repairable: Nodes that only repair may take: kept by their own do-not-disrupt, or never initialized. None without the
            gate NodeRepair.
    """

    candidates: tuple[Candidate, ...]
    blocked: Mapping[str, tuple[Refusal, ...]]
    drifted: frozenset[str] = frozenset()
    repairable: tuple[Candidate, ...] = ()

    @property
    def by_name(self) -> dict[str, Candidate]:
        """Every node that some method may take, by name."""
        return {candidate.name: candidate for candidate in (*self.candidates, *self.repairable)}


def survey(
    snapshot: Snapshot, states: Sequence[StateNode], budgets: DisruptionBudgets, nominated: Mapping[str, str]
) -> Survey:
    """Sort every node into candidates and others.

    `nominated` maps names of nodes and claims to the pod that is expected there.
    """
    drift, together = DriftCheck(snapshot), kept_together(snapshot)
    pools = {pool.name: pool for pool in snapshot.node_pools}
    repairs = snapshot.options.feature_gates.node_repair
    candidates: list[Candidate] = []
    repairable: list[Candidate] = []
    blocked: dict[str, tuple[Refusal, ...]] = {}
    drifted: set[str] = set()
    for state in states:
        pool = pools.get(state.node_pool)
        why = drift.reason(state.claim, pool) if state.claim is not None and pool is not None else ""
        if why:
            drifted.add(state.name)
        kept = _kept(state, pool, snapshot, nominated)
        if kept:
            blocked[state.name] = (*blocked.get(state.name, ()), *kept)
        if (
            state.claim is None
            or pool is None
            or (kept and not (repairs and _only_repair(state, pool, kept, snapshot)))
        ):
            continue
        candidate = _candidate(state, state.claim, pool, snapshot, why, _protected(state, snapshot, budgets, together))
        (repairable if kept else candidates).append(candidate)
    return Survey(tuple(candidates), blocked, frozenset(drifted), tuple(repairable))


def _candidate(
    state: StateNode,
    claim: NodeClaim,
    pool: NodePool,
    snapshot: Snapshot,
    drift: str,
    protected: tuple[Refusal, ...],
) -> Candidate:
    instance_type = type_of(state.labels, pool_types(snapshot).by_name(pool.name))
    pods = reschedulable(state.pods)
    condition = claim.conditions.get(plan.DRIFTED)
    return Candidate(
        state=state,
        claim=claim,
        pool=pool,
        instance_type=instance_type,
        price=paid_price(state, snapshot),
        pods=pods,
        cost=reschedule_cost(pods, snapshot.options.feature_gates),
        drift=drift,
        drifted_at=condition.changed_at if condition is not None and condition.status == "True" else None,
        protected=protected,
    )


def _kept(
    state: StateNode, pool: NodePool | None, snapshot: Snapshot, nominated: Mapping[str, str]
) -> tuple[Refusal, ...]:
    """Return why the node is not a candidate, apart from its pods; being deleted, unmanaged or uninitialized is final."""
    name, claim = state.name, state.claim
    if state.is_marked_for_deletion(snapshot):
        return (BeingDeleted(name),)
    if claim is None:
        return (Unmanaged(name),)
    if state.node is None:
        return (NotJoined(claim.name),)
    if state.is_rebooting:
        return (NodeReboots(name),)
    if not state.is_initialized:
        return (Uninitialized(name),)
    blocking: list[Refusal] = []
    expected = nominated.get(name) or nominated.get(claim.name)
    if expected:
        blocking.append(PodExpected(name, expected))
    if claim.hold is not None and snapshot.now < claim.hold.until:
        blocking.append(Stated(NodeReason.of(claim.hold.reason, NodeReason.DRAIN_BLOCKED), claim.hold.message))
    if state.node.blocks_disruption(snapshot.now):
        until = protected_until(state.annotations.get(labels.DO_NOT_DISRUPT), state.node.created_at)
        blocking.append(NodeNotToDisrupt(name, until))
    blocking += _unreadable(state, state.node)
    return (*blocking, *_pool_keeps(name, state.node_pool, pool, snapshot))


def _only_repair(state: StateNode, pool: NodePool, kept: Iterable[Refusal], snapshot: Snapshot) -> bool:
    """Whether nothing keeps the node that repair must respect: nothing else replaces a node that never initializes."""
    if not state.is_initialized:
        is_late = state.is_registered and all(block.reason == NodeReason.NOT_INITIALIZED for block in kept)
        return is_late and not _pool_keeps(state.name, state.node_pool, pool, snapshot)
    return all(block.reason == NodeReason.DO_NOT_DISRUPT for block in kept)


def _pool_keeps(name: str, named: str, pool: NodePool | None, snapshot: Snapshot) -> list[Refusal]:
    """Return why no node of the NodePool is a candidate; the node's label names the pool."""
    blocking: list[Refusal] = []
    if named in snapshot.paused_pools:
        blocking.append(Stated(NodeReason.PAUSED, snapshot.paused_pools[named]))
    if pool is None:
        blocking.append(NodePoolMissing(named or "(none)", name))
    elif pool.is_observed:
        blocking.append(NodePoolObserved(pool.name))
    elif pool.problem:
        blocking.append(NodePoolInvalid(pool.name, pool.problem))
    elif not snapshot.catalogue.types_for(pool.node_class.name):
        blocking.append(NodePoolWithoutTypes(pool.name))
    return blocking


def _unreadable(state: StateNode, node: Node) -> list[Refusal]:
    """Return which field of the node or its pods is unreadable: it may be the field that forbids disruption."""
    blocking: list[Refusal] = []
    if node.unreadable:
        blocking.append(NodeUnreadable(state.name, node.unreadable))
    pod = next((pod for pod in state.pods if pod.unreadable and not pod.is_terminal), None)
    if pod is not None:
        blocking.append(PodUnreadable(pod.key, pod.unreadable))
    return blocking


def _protected(
    state: StateNode, snapshot: Snapshot, budgets: DisruptionBudgets, together: Mapping[str, str]
) -> tuple[Refusal, ...]:
    blocking: list[Refusal] = []
    pod = next((pod for pod in state.pods if pod.blocks_disruption(snapshot.now)), None)
    if pod is not None:
        blocking.append(PodNotToDisrupt(pod.key))
    member = next((pod for pod in state.pods if pod.key in together), None) if together else None
    if member is not None:
        blocking.append(PodOfRunningGroup(member.key, together[member.key]))
    guarded = next(filter(None, map(budgets.not_evicted_now, state.pods)), None)
    if guarded is not None:
        blocking.append(BudgetKeepsPod(guarded))
    return tuple(blocking)


# Policy Balanced: the share of the pool's cost that a move saves must be at least half its share of the pool's disruption.
#
# Karpenter's rule with k = 2: score = (savings / pool cost) / (moved disruption / pool disruption) must reach 1/k.


_K: Final = 2


class PoolTotals(msgspec.Struct, frozen=True):
    """The cost of all nodes of a pool, in nano-dollars per hour, and the disruption cost of moving all their pods."""

    price: int
    cost: int


def pool_totals(snapshot: Snapshot, states: Iterable[StateNode]) -> dict[str, PoolTotals]:
    """Return the totals of each pool of policy Balanced over all its nodes, candidates or not."""
    pools = {pool.name for pool in snapshot.node_pools if pool.disruption.policy == BALANCED}
    result: dict[str, PoolTotals] = {}
    for state in states:
        if state.node_pool not in pools or state.is_marked_for_deletion(snapshot):
            continue
        before = result.get(state.node_pool, PoolTotals(0, 0))
        price = paid_price(state, snapshot)
        moving = reschedule_cost(reschedulable(state.pods), snapshot.options.feature_gates)
        result[state.node_pool] = PoolTotals(before.price + price, before.cost + moving)
    return result


def rejecting_pool(candidates: Sequence[Candidate], savings: int, totals: Mapping[str, PoolTotals]) -> str:
    """Return the first pool of policy Balanced that rejects the move, empty if all approve.

    The savings are divided among the pools by the cost of their nodes.
    """
    total_price = sum(c.price for c in candidates)
    for name in sorted({c.pool.name for c in candidates}):
        pool_candidates = [c for c in candidates if c.pool.name == name]
        if pool_candidates[0].pool.disruption.policy != BALANCED:
            continue
        pool = totals.get(name, PoolTotals(0, 0))
        own_price, moved = sum(c.price for c in pool_candidates), sum(c.cost for c in pool_candidates)
        # savings · own/total / pool.price ÷ (moved / pool.cost) ≥ 1/k, without division
        share, whole = (own_price, total_price) if total_price else (1, 1)
        worth = pool.price > 0 and savings > 0
        if not worth or savings * share * pool.cost * _K < moved * pool.price * whole:
            return name
    return ""
