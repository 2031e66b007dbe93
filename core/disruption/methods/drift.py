"""Drift: nodes that are no longer what their pool asks for are replaced, whatever that costs (docs/adr/0049)."""

from __future__ import annotations

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """A command for each drifted node that budgets let go and whose pods all find a place, as far as they do not meet.

    Empty nodes come before others, those longest drifted first. The rollout of a pool lets its first node go alone, and
    none while it is stopped. Pods go to drifted nodes only where nothing else holds them: they would move once more.
    Commands of one call are found in one and the same world; one that counts on a node to which another moves pods is left
    to the next call, which sees it filled.
    """
    drifted = [c for c in disruption_pass.survey.candidates if c.drift and not c.pool.is_static]
    closed = {candidate.name for candidate in drifted}
    left, found, filled = disruption_pass.what_is_left(), list[Command](), set[str]()
    for candidate in sorted(drifted, key=lambda c: _order(c, disruption_pass)):
        if disruption_pass.is_exhausted:
            break
        # A node that was refused is so still: the world has only become fuller since.
        if candidate.name in filled or candidate.name in disruption_pass.refusals or not candidate.may_drift:
            continue
        if not left.allows(candidate, TerminationReason.DRIFTED) or not disruption_pass.passes_rollout(
            candidate, found
        ):
            continue
        command = disruption_pass.replaced(candidate, TerminationReason.DRIFTED, "drift", closed=closed)
        targets = {move.to for move in command.moves} if command else set()
        if command is None or not filled.isdisjoint(targets) or any(c.nodes[0] in targets for c in found):
            continue
        left.take(candidate, TerminationReason.DRIFTED)
        disruption_pass.reserve_names(command)
        found.append(command)
        filled |= targets
    return found


def _order(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[bool, float, str]:
    since = candidate.drifted_at or disruption_pass.snapshot.now
    return bool(candidate.pods), since.timestamp(), candidate.name
