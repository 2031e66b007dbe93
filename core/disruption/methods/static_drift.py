"""Drift of static pools: replaces each drifted node by one made from the template, whatever pods it holds."""

from __future__ import annotations

from core import labels
from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.prices import ReplacementOptions
from core.model.node_pool import NodePool
from core.model.plan import Command, PlannedClaim
from core.model.snapshot import Snapshot
from core.model.values import quantity
from core.pools.pool_template import SIMULATED, template_labels, template_requirements
from core.pools.pool_types import pool_types
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for the first drifted node of a static pool that may be replaced, by name.

    A pool with more nodes than it wants shrinks first; `limits.nodes` must have room for the replacement beside the node that
    goes (Karpenter).
    """
    for candidate in disruption_pass.candidates(TerminationReason.DRIFTED):
        if not candidate.drift or not candidate.pool.is_static or candidate.name in disruption_pass.refusals:
            continue
        if not disruption_pass.passes_rollout(candidate):
            continue
        hindrance = _hindrance(candidate.pool, disruption_pass)
        replacement = None if hindrance else _from_template(candidate.pool, disruption_pass.snapshot)
        if replacement is None:
            text = hindrance or f"NodePool {candidate.pool.name} has no instance type to launch"
            disruption_pass.refuse(candidate, NodeReason.STATIC_POOL, text)
            continue
        return [_command(candidate, disruption_pass.named(replacement))]
    return []


def _command(candidate: Candidate, replacement: PlannedClaim) -> Command:
    return Command(
        reason=TerminationReason.DRIFTED,
        method="static-drift",
        nodes=(candidate.name,),
        claims=(candidate.claim.name,),
        replacements=(replacement,),
        savings=candidate.price - replacement.price,
    )


def _hindrance(pool: NodePool, disruption_pass: DisruptionPass) -> str:
    """Return why no node of the pool may be replaced now, empty where one may."""
    own = [claim for claim in disruption_pass.snapshot.node_claims if claim.node_pool == pool.name]
    running = [claim for claim in own if claim.deleted_at is None]
    if len(running) > (pool.replicas or 0):
        return f"NodePool {pool.name} has {len(running)} nodes and wants {pool.replicas}: it shrinks first"
    limit = pool.limits.get(quantity.NODES)
    leaving = sum(
        claim.node_pool == pool.name for command in disruption_pass.commands for claim in command.replacements
    )
    if limit is not None and len(own) + leaving >= limit:
        return f"limits.nodes of NodePool {pool.name} leaves no room for a replacement"
    return ""


def _from_template(pool: NodePool, snapshot: Snapshot) -> PlannedClaim | None:
    """Return a claim for any type that the template allows; None where there is none."""
    asked = template_requirements(pool)
    types = pool_types(snapshot).of(pool.name)
    fitting = [t for t in types if t.requirements().conflict(asked) is None]
    offerings = [o for t in fitting for o in t.offerings if o.available and o.requirements().conflict(asked) is None]
    claim = PlannedClaim(
        name=pool.name,
        node_pool=pool.name,
        node_class=pool.node_class,
        labels=template_labels(pool),
        annotations=pool.annotations,
        taints=pool.taints,
        startup_taints=pool.startup_taints,
        requirements=tuple(r for r in asked.without(*SIMULATED, labels.NODEPOOL).values() if r.key not in pool.labels),
        zones=tuple(sorted({o.zone for o in offerings})),
        capacity_types=tuple(sorted({o.capacity_type for o in offerings})),
        expire_after=pool.expire_after,
        termination_grace_period=pool.termination_grace_period,
    )
    options = ReplacementOptions(claim, ()).with_types(fitting)
    return options.planned() if options.types else None
