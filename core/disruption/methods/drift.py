"""Drift: nodes that are no longer what their pool asks for are replaced, whatever that costs (docs/adr/0049)."""

from __future__ import annotations

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.independence import Independence
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """A command for each drifted node that budgets let go and whose pods all find a place, as far as they do not meet.

    Empty nodes come before others, those longest drifted first. The rollout of a pool lets its first node go alone, and
    none while it is stopped. Pods go to drifted nodes only where nothing else holds them: they would move once more.
    Commands of one call are found in one and the same world; one that depends on another is left to the next call.
    """
    drifted = [c for c in disruption_pass.survey.candidates if c.drift and not c.pool.is_static]
    closed = {candidate.name for candidate in drifted}
    left, together, found = disruption_pass.what_is_left(), Independence(disruption_pass.snapshot), list[Command]()
    for candidate in sorted(drifted, key=lambda c: _order(c, disruption_pass)):
        if disruption_pass.is_exhausted:
            break
        # A node that was refused is so still: the world has only become fuller since.
        if candidate.name in disruption_pass.refusals or not candidate.may_drift:
            continue
        if not left.allows(candidate, TerminationReason.DRIFTED) or not disruption_pass.passes_rollout(
            candidate, found
        ):
            continue
        command = disruption_pass.replaced(candidate, TerminationReason.DRIFTED, "drift", closed=closed)
        if command is None or not together.takes(command, candidate):
            continue
        left.take(candidate, TerminationReason.DRIFTED)
        disruption_pass.reserve_names(command)
        found.append(command)
    return found


def _order(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[bool, float, str]:
    since = candidate.drifted_at or disruption_pass.snapshot.now
    return bool(candidate.pods), since.timestamp(), candidate.name
