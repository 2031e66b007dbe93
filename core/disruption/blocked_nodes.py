"""Collects what keeps each node that stays, for `blocked[]` of the output."""

from __future__ import annotations

from core.disruption.budgets.node_pool_budgets import unreadable
from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.eligibility import hindrance
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Blocked
from core.model.snapshot import Snapshot
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason


def blocked_nodes(disruption_pass: DisruptionPass, snapshot: Snapshot) -> tuple[Blocked, ...]:
    """Return what keeps each node of the snapshot that stays, by node; each code once per node."""
    present = {node.name for node in snapshot.nodes}
    found = list(disruption_pass.survey.blocked)
    for candidate in disruption_pass.survey.candidates:
        found += blocks(candidate, disruption_pass)
    by_code = {(block.node, block.reason): block for block in reversed(found) if block.node in present}
    return tuple(by_code[key] for key in sorted(by_code))


def blocks(candidate: Candidate, disruption_pass: DisruptionPass) -> list[Blocked]:
    """Return what keeps a candidate: its pods' objections, else its pool's rules, else budgets, else what the methods found."""
    ill = disruption_pass.refusals.get(candidate.name)
    found = list(candidate.protected)
    if candidate.drift and candidate.may_drift:
        found = [_drift_block(candidate, disruption_pass)]
    rule = hindrance(candidate, disruption_pass)
    if rule is not None and not candidate.drift:
        found.append(rule)
    if ill is not None and ill.reason == NodeReason.MANY_UNHEALTHY:
        found.append(ill)
    return found or [_method_block(candidate, disruption_pass)]


def _drift_block(candidate: Candidate, disruption_pass: DisruptionPass) -> Blocked:
    return _spent(candidate, disruption_pass, TerminationReason.DRIFTED) or _refused(candidate, disruption_pass)


def _method_block(candidate: Candidate, disruption_pass: DisruptionPass) -> Blocked:
    reason = TerminationReason.EMPTY if candidate.is_empty else TerminationReason.UNDERUTILIZED
    return _spent(candidate, disruption_pass, reason) or _refused(candidate, disruption_pass)


def _spent(candidate: Candidate, disruption_pass: DisruptionPass, reason: str) -> Blocked | None:
    """Return what keeps the candidate in budgets or commands of this pass; None for nothing."""
    name, pool = candidate.name, candidate.pool.name
    if not disruption_pass.budgets.has_place(candidate, reason):
        problem = unreadable(candidate.pool)
        text = f"the disruption budgets of NodePool {pool} let no more nodes go now for {reason}"
        if problem:
            text = f"NodePool {pool} lets no node go until this is corrected: {problem}"
        return Blocked(name, NodeReason.BUDGET, text)
    if not disruption_pass.budgets.evictions_allowed([candidate]):
        text = f"pods of node {name} share a PodDisruptionBudget with those of nodes that go in this round"
        return Blocked(name, NodeReason.POD_DISRUPTION_BUDGET, text)
    objection = disruption_pass.budgets.rate_objection(candidate)
    return Blocked(name, NodeReason.EVICTION_RATE, objection) if objection else None


def _refused(candidate: Candidate, disruption_pass: DisruptionPass) -> Blocked:
    waiting = Blocked(
        candidate.name, NodeReason.NOT_TRIED, f"the round ended before node {candidate.name} was looked at"
    )
    return disruption_pass.refusals.get(candidate.name, waiting)
