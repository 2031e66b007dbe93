"""Drift: replaces nodes that no longer match their pool, whatever the cost (docs/adr/0049)."""

from __future__ import annotations

from core.disruption.candidates.candidate import Candidate
from core.disruption.commands.independence import Independence
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.leaving_nodes import short_lived
from core.model.plan import Command
from core.reasons.termination import TerminationReason


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for each drifted node about which no target decides, see `_found`."""
    return _found(disruption_pass, [c for c in _drifted(disruption_pass) if not disruption_pass.goes_with_target(c)])


def find_left(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for each drifted node, once the target has found no place for any.

    A single node's pods may go where those of a target do not: to nodes that have drifted as well.
    """
    left = [candidate for candidate in _drifted(disruption_pass) if disruption_pass.goes_with_target(candidate)]
    for candidate in left:
        disruption_pass.refusals.pop(candidate.name, None)
    return _found(disruption_pass, left)


def _drifted(disruption_pass: DisruptionPass) -> list[Candidate]:
    return [c for c in disruption_pass.survey.candidates if c.drift and not c.pool.is_static]


def _found(disruption_pass: DisruptionPass, drifted: list[Candidate]) -> list[Command]:
    """Return a command for each of the nodes that budgets let go and whose pods find a place, as far as independent.

    Empty nodes come first, then nodes in the order in which they drifted. The rollout of a pool lets its first node go alone,
    and none while it is stopped. Pods go to nodes that have drifted, expire soon or are drained by the stored target only if no
    other node can hold them: they would have to move again. Commands of one call are found in the same snapshot; one that
    depends on another waits for the next call. One whose pods take the place of a pod without a node comes alone, once there is
    no other: that pod's new place may be a node that another command takes.
    """
    closed = short_lived(disruption_pass)
    left = disruption_pass.budgets.reservation()
    together = Independence(disruption_pass.snapshot, disruption_pass.default_spreads)
    found: list[Command] = []
    last: Command | None = None
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
        replaced = disruption_pass.replaced(candidate, TerminationReason.DRIFTED, "drift", closed=closed)
        if replaced is None:
            continue
        if replaced.takes_place:
            last = last or replaced.command
            continue
        if not together.takes(replaced.command, candidate):
            continue
        left.take(candidate, TerminationReason.DRIFTED)
        disruption_pass.names.take(replaced.command.replacements)
        found.append(replaced.command)
    if not found and last is not None:
        disruption_pass.names.take(last.replacements)
        return [last]
    return found


def _order(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[bool, float, str]:
    since = candidate.drifted_at or disruption_pass.snapshot.now
    return bool(candidate.pods), since.timestamp(), candidate.name
