"""Selects the candidates for consolidation, and explains why the others are excluded."""

from __future__ import annotations

from core import labels
from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.move_history import first_reason
from core.model.node_pool import WHEN_EMPTY
from core.model.plan import Blocked
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason


def underutilized(disruption_pass: DisruptionPass) -> list[Candidate]:
    """Return candidates for consolidation that budgets allow, the highest ratio of price to disruption first, ties by name."""
    found = [
        c
        for c in disruption_pass.candidates(TerminationReason.UNDERUTILIZED)
        if not c.is_empty and objection(c, disruption_pass) is None
    ]
    return sorted(found, key=lambda c: (-c.savings_ratio, c.name))


def objection(candidate: Candidate, disruption_pass: DisruptionPass) -> Blocked | None:
    """Return what in pool, policy or catalogue keeps an empty or underutilized node; None if nothing does."""
    name, pool = candidate.name, candidate.pool
    now, after = disruption_pass.snapshot.now, pool.disruption.consolidate_after
    if pool.is_static:
        text = f"NodePool {pool.name} keeps {pool.replicas} nodes, regardless of their use"
        return Blocked(name, NodeReason.STATIC_POOL, text)
    if after is None:
        return Blocked(name, NodeReason.CONSOLIDATE_AFTER, f"consolidateAfter of NodePool {pool.name} is Never")
    if not candidate.is_consolidatable(now):
        since = candidate.claim.idle_since or now
        text = f"consolidateAfter of NodePool {pool.name} is over at {since + after:%Y-%m-%dT%H:%M:%SZ}"
        return Blocked(name, NodeReason.CONSOLIDATE_AFTER, text)
    if candidate.is_empty:
        return _kept_room(name, disruption_pass)
    if pool.disruption.policy == WHEN_EMPTY:
        pod = next(pod.key for pod in candidate.pods)
        text = f"NodePool {pool.name} consolidates empty nodes only, and pod {pod} runs on node {name}"
        return Blocked(name, NodeReason.POLICY_WHEN_EMPTY, text)
    gate = disruption_pass.snapshot.rollouts.get(pool.name) if candidate.drift else None
    if gate is not None:
        return Blocked(name, NodeReason.ROLLOUT_STOPPED if gate.is_stopped else NodeReason.ROLLOUT_CANARY, gate.message)
    why = first_reason(disruption_pass.snapshot.moved_workloads, candidate.pods, now)
    if why:
        return Blocked(name, NodeReason.RECENTLY_MOVED, why)
    if not candidate.is_priced:
        stated = candidate.state.labels.get(labels.INSTANCE_TYPE) or "(none)"
        text = (
            f"node {name} (instance type {stated}) has no known type, zone and capacity type, so its price is unknown"
        )
        return Blocked(name, NodeReason.UNKNOWN_INSTANCE_TYPE, text)
    return None


def _kept_room(name: str, disruption_pass: DisruptionPass) -> Blocked | None:
    """Return what keeps an empty node."""
    if name not in disruption_pass.buffer_nodes:
        return None
    return Blocked(name, NodeReason.CAPACITY_BUFFER, f"a capacity buffer uses the room of node {name}")
