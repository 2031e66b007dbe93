"""Drift: nodes that are no longer what their pool asks for are replaced, whatever that costs."""

from __future__ import annotations

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import Round
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def find(plan_round: Round) -> list[Command]:
    """The first drifted node whose pods all find a place; empty nodes before others, those longest drifted first."""
    drifted = [c for c in plan_round.candidates(TerminationReason.DRIFTED) if c.drift and not c.pool.is_static]
    for candidate in sorted(drifted, key=lambda c: _order(c, plan_round)):
        if plan_round.is_exhausted:
            break
        if candidate.name in plan_round.refusals:  # the world has only become fuller since
            continue
        if command := plan_round.replaced(candidate, TerminationReason.DRIFTED, "drift"):
            return [command]
    return []


def _order(candidate: Candidate, plan_round: Round) -> tuple[bool, float, str]:
    since = candidate.drifted_at or plan_round.snapshot.now
    return bool(candidate.pods), since.timestamp(), candidate.name
