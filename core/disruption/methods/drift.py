"""Drift: nodes that are no longer what their pool asks for are replaced, whatever that costs."""

from __future__ import annotations

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """The first drifted node whose pods all find a place; empty nodes before others, those longest drifted first."""
    drifted = [c for c in disruption_pass.candidates(TerminationReason.DRIFTED) if c.drift and not c.pool.is_static]
    for candidate in sorted(drifted, key=lambda c: _order(c, disruption_pass)):
        if disruption_pass.is_exhausted:
            break
        if candidate.name in disruption_pass.refusals:  # the world has only become fuller since
            continue
        if command := disruption_pass.replaced(candidate, TerminationReason.DRIFTED, "drift"):
            return [command]
    return []


def _order(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[bool, float, str]:
    since = candidate.drifted_at or disruption_pass.snapshot.now
    return bool(candidate.pods), since.timestamp(), candidate.name
