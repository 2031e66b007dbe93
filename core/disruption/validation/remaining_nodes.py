"""Finds the nodes of a stored command that may still go for its reason."""

from __future__ import annotations

from collections.abc import Sequence

from core.disruption.blocked_nodes import blocks
from core.disruption.candidates.candidate import Candidate
from core.disruption.conditions.node_health import HealthCheck
from core.disruption.consolidation.eligibility import objection
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def remaining_nodes(command: Command, fresh: DisruptionPass) -> tuple[list[Candidate], dict[str, str]]:
    """Return the command's nodes that pods, pools and budgets still let go for its reason; and node → why, for the others."""
    by_claim = {c.claim.name: c for c in fresh.survey.candidates}
    named = list(zip(command.claims, command.nodes, strict=True))
    left_out = {node: why for claim, node in named if (why := _unfit(claim, node, by_claim.get(claim), command, fresh))}
    fit = [by_claim[claim] for claim, node in named if node not in left_out]
    going = _within_budgets(fit, command.reason, fresh)
    text = f"budgets let {len(going)} of {len(fit)} nodes go for {command.reason} now"
    return going, left_out | {candidate.name: text for candidate in fit if candidate not in going}


def _unfit(claim: str, node: str, candidate: Candidate | None, command: Command, fresh: DisruptionPass) -> str:
    """Return why a node of the command no longer qualifies, budgets aside; empty if it does."""
    if candidate is None:
        said = next((b.message for b in fresh.survey.blocked if b.node == node), "it is gone")
        return f"NodeClaim {claim} is no longer a candidate: {said}"
    if not fresh.is_free(candidate, command.reason):
        return blocks(candidate, fresh)[0].message
    if command.reason == TerminationReason.DRIFTED:
        return "" if candidate.drift else f"node {candidate.name} is no longer drifted"
    if command.reason == TerminationReason.UNHEALTHY:
        is_unhealthy = HealthCheck(fresh.states, fresh.snapshot.now).problem(candidate.state.node)
        return "" if is_unhealthy else f"node {candidate.name} is healthy again"
    rule = objection(candidate, fresh)
    if rule is not None:
        return rule.message
    if command.reason == TerminationReason.EMPTY and not candidate.is_empty:
        return f"node {candidate.name} is no longer empty"
    return ""


def _within_budgets(candidates: Sequence[Candidate], reason: str, fresh: DisruptionPass) -> list[Candidate]:
    """Return the nodes, in order, that all budgets let go together."""
    if fresh.snapshot.options.ignore_budgets:
        return list(candidates)
    if reason == TerminationReason.UNHEALTHY:
        return [candidate for candidate in candidates if fresh.budgets.allow_repair(candidate, fresh.commands)]
    return fresh.budgets.within(candidates, reason)
