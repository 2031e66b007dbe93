"""Node repair: nodes that are ill for long are replaced, within all budgets (docs/adr/0034)."""

from __future__ import annotations

from core.disruption.conditions.node_health import HealthCheck
from core.disruption.disruption_pass import Round
from core.model.plan import Command
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason


def find(plan_round: Round) -> list[Command]:
    """The first ill node that may go and whose pods all find a place, by name; none where the feature gate is off."""
    snapshot = plan_round.snapshot
    if not snapshot.options.feature_gates.node_repair:
        return []
    health = HealthCheck(plan_round.states, snapshot.now)
    for candidate in plan_round.survey.candidates:
        if not health.problem(candidate.state.node) or candidate.name in plan_round.refusals:
            continue
        if health.is_widespread(candidate.pool.name):
            text = f"too many nodes of NodePool {candidate.pool.name} are ill for a replacement to help"
            plan_round.refuse(candidate, NodeReason.MANY_UNHEALTHY, text)
        elif plan_round.may_repair(candidate) and (
            command := plan_round.replaced(candidate, TerminationReason.UNHEALTHY, "repair")
        ):
            return [command]
    return []
