"""Drift: replaces nodes that no longer match their pool, whatever the cost (docs/adr/0049)."""

from __future__ import annotations

from core.disruption.candidates.candidate import Candidate
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.independence import Independence
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for each drifted node that budgets let go and whose pods find a place, if the commands are independent.

    Empty nodes come before others, then those that drifted first. A pool's rollout replaces its first node alone, and none
    while it is stopped. Pods go to drifted nodes, and to nodes that expire soon, only if no other node can hold them: they
    would have to move again. All commands of one call are found in the same snapshot; one that depends on another waits for the
    next call.
    """
    drifted = [c for c in disruption_pass.survey.candidates if c.drift and not c.pool.is_static]
    closed = {candidate.name for candidate in drifted} | disruption_pass.expiring
    left, together, found = (
        disruption_pass.budgets.reservation(),
        Independence(disruption_pass.snapshot),
        list[Command](),
    )
    for candidate in sorted(drifted, key=lambda c: _order(c, disruption_pass)):
        if disruption_pass.is_exhausted:
            break
        # A node that was refused stays refused: the cluster has only become fuller since.
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
