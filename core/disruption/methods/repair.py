"""Node repair: replaces nodes that have been unhealthy for long, within all budgets (docs/adr/0034)."""

from __future__ import annotations

from core.disruption.conditions.node_health import HealthCheck
from core.disruption.disruption_pass import DisruptionPass
from core.disruption.leaving_nodes import short_lived
from core.model.plan import Command
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason


def find(disruption_pass: DisruptionPass) -> list[Command]:
    """Return a command for the first unhealthy node, by name, that may go and whose pods find a place.

    Its pods go to nodes that leave later only where no other node can hold them. None while the feature gate NodeRepair is off.
    """
    snapshot = disruption_pass.snapshot
    if not snapshot.options.feature_gates.node_repair:
        return []
    health = HealthCheck(disruption_pass.states, snapshot.now)
    closed = short_lived(disruption_pass)
    for candidate in disruption_pass.survey.candidates:
        if not health.problem(candidate.state.node) or candidate.name in disruption_pass.refusals:
            continue
        if health.is_widespread(candidate.pool.name):
            text = f"too many nodes of NodePool {candidate.pool.name} are unhealthy for a replacement to help"
            disruption_pass.refuse(candidate, NodeReason.MANY_UNHEALTHY, text)
        elif disruption_pass.budgets.allow_repair(candidate, disruption_pass.commands) and (
            replaced := disruption_pass.replaced(candidate, TerminationReason.UNHEALTHY, "repair", closed=closed)
        ):
            return [replaced.command]
    return []
