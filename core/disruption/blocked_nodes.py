"""What keeps each node that stays, in the words of `blocked[]`."""

from __future__ import annotations

from core.disruption.candidates.candidate import Candidate
from core.disruption.consolidation.eligibility import hindrance
from core.disruption.disruption_pass import Round
from core.model.plan import Blocked
from core.model.snapshot import Snapshot
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason


def blocked_nodes(plan_round: Round, snapshot: Snapshot) -> tuple[Blocked, ...]:
    """Everything that keeps the nodes of the snapshot that the round leaves alone, by node; each code once for a node."""
    present = {node.name for node in snapshot.nodes}
    found = list(plan_round.survey.blocked)
    for candidate in plan_round.survey.candidates:
        found += blocks(candidate, plan_round)
    by_code = {(block.node, block.reason): block for block in reversed(found) if block.node in present}
    return tuple(by_code[key] for key in sorted(by_code))


def blocks(candidate: Candidate, plan_round: Round) -> list[Blocked]:
    """What keeps a candidate: its pods' objections, else its pool's rules, else budgets, else what the methods found."""
    ill = plan_round.refusals.get(candidate.name)
    found = list(candidate.protected)
    if candidate.drift and candidate.may_drift:
        found = [_drift_block(candidate, plan_round)]
    rule = hindrance(candidate, plan_round)
    if rule is not None and not candidate.drift:
        found.append(rule)
    if ill is not None and ill.reason == NodeReason.MANY_UNHEALTHY:
        found.append(ill)
    return found or [_method_block(candidate, plan_round)]


def _drift_block(candidate: Candidate, plan_round: Round) -> Blocked:
    return _spent(candidate, plan_round, TerminationReason.DRIFTED) or _refused(candidate, plan_round)


def _method_block(candidate: Candidate, plan_round: Round) -> Blocked:
    reason = TerminationReason.EMPTY if candidate.is_empty else TerminationReason.UNDERUTILIZED
    return _spent(candidate, plan_round, reason) or _refused(candidate, plan_round)


def _spent(candidate: Candidate, plan_round: Round, reason: str) -> Blocked | None:
    """Whether budgets or commands of this round keep it."""
    name, pool = candidate.name, candidate.pool.name
    if not plan_round.has_node_budget(candidate, reason):
        text = f"the disruption budgets of NodePool {pool} let no more nodes go now for {reason}"
        return Blocked(name, NodeReason.BUDGET, text)
    if not plan_round.evictions_allowed([candidate]):
        text = f"pods of node {name} share a PodDisruptionBudget with those of nodes that go in this round"
        return Blocked(name, NodeReason.POD_DISRUPTION_BUDGET, text)
    return None


def _refused(candidate: Candidate, plan_round: Round) -> Blocked:
    waiting = Blocked(
        candidate.name, NodeReason.NOT_TRIED, f"the round ended before node {candidate.name} was looked at"
    )
    return plan_round.refusals.get(candidate.name, waiting)
