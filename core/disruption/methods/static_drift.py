"""Drift of static pools: replaces each drifted node by one from the template, regardless of its pods."""

from __future__ import annotations

from typing import Final

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.static_capacity.template_claim import template_claim
from core.model.node_claim import INITIALIZED
from core.model.node_pool import NodePool
from core.model.plan import Command, PlannedClaim
from core.model.values import quantity
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason

METHOD: Final = "static-drift"


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for the first drifted node of a static pool that may be replaced, by name.

    A pool with surplus nodes shrinks first. `limits.nodes` must have room for the replacement beside the old node (Karpenter).
    Without that room, and with the gate StaticCapacity, which restores the number of nodes, the old node goes first, if all
    others work.
    """
    for candidate in disruption_pass.candidates(TerminationReason.DRIFTED):
        if not candidate.drift or not candidate.pool.is_static or candidate.name in disruption_pass.refusals:
            continue
        if not disruption_pass.passes_rollout(candidate):
            continue
        if _goes_first(candidate.pool, disruption_pass):
            return [_command(candidate, None)]
        objection = _objection(candidate.pool, disruption_pass)
        replacement = None if objection else template_claim(candidate.pool, disruption_pass.snapshot)
        if replacement is None:
            text = objection or f"NodePool {candidate.pool.name} has no instance type to launch"
            disruption_pass.refuse(candidate, NodeReason.STATIC_POOL, text)
            continue
        return [_command(candidate, disruption_pass.names.named(replacement))]
    return []


def _command(candidate: Candidate, replacement: PlannedClaim | None) -> Command:
    return Command(
        reason=TerminationReason.DRIFTED,
        method=METHOD,
        nodes=(candidate.name,),
        claims=(candidate.claim.name,),
        replacements=(replacement,) if replacement is not None else (),
        savings=candidate.price - (replacement.price if replacement is not None else 0),
    )


def _goes_first(pool: NodePool, disruption_pass: DisruptionPass) -> bool:
    """Whether a node of the pool is removed before it is replaced: at the limit, if no other node of the pool is missing."""
    snapshot, limit = disruption_pass.snapshot, pool.limits.get(quantity.NODES)
    own = [claim for claim in snapshot.node_claims if claim.node_pool == pool.name]
    if limit is None or not snapshot.options.feature_gates.static_capacity or len(own) != limit:
        return False
    going = {name for command in disruption_pass.commands for name in command.claims} | set(
        snapshot.marked_for_deletion
    )
    works = all(claim.deleted_at is None and claim.is_true(INITIALIZED) for claim in own)
    return works and len(own) == pool.replicas and not any(claim.name in going for claim in own)


def _objection(pool: NodePool, disruption_pass: DisruptionPass) -> str:
    """Return why no node of the pool may be replaced now, empty if one may."""
    own = [claim for claim in disruption_pass.snapshot.node_claims if claim.node_pool == pool.name]
    running = [claim for claim in own if claim.deleted_at is None]
    if len(running) > (pool.replicas or 0):
        return f"NodePool {pool.name} has {len(running)} nodes and wants {pool.replicas}: it shrinks first"
    limit = pool.limits.get(quantity.NODES)
    if limit is not None and any(c.method == METHOD and not c.replacements for c in disruption_pass.commands):
        return f"a node goes before its replacement comes; NodePool {pool.name} waits for that"
    leaving = sum(
        claim.node_pool == pool.name for command in disruption_pass.commands for claim in command.replacements
    )
    if limit is not None and len(own) + leaving >= limit:
        return f"limits.nodes of NodePool {pool.name} leaves no room for a replacement"
    return ""
