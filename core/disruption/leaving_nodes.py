"""Nodes of a disruption pass that will leave soon, to which pods are not moved: they would soon move again."""

from __future__ import annotations

from core.disruption.conditions.expiration import expires_soon
from core.disruption.disruption_pass import DisruptionPass
from core.reasons.termination import TerminationReason


def short_lived(disruption_pass: DisruptionPass) -> frozenset[str]:
    """Return the names of nodes that have drifted, expire soon or are in a capacity reservation that ends soon.

    A drifted node counts even if something keeps it for now.
    """
    ending = disruption_pass.ending.nodes(disruption_pass.states)
    return disruption_pass.survey.drifted | expiring(disruption_pass) | ending


def expiring(disruption_pass: DisruptionPass) -> frozenset[str]:
    """Return the names of nodes that expire soon, whether or not disruption may touch them; none under Karpenter's policy."""
    snapshot = disruption_pass.snapshot
    if snapshot.options.karpenter_moves_only:
        return frozenset()
    positions = disruption_pass.planner.context.positions
    claims = ((state.name, state.claim) for state in disruption_pass.states if state.name in positions)
    return frozenset(name for name, claim in claims if claim is not None and expires_soon(claim, snapshot.now))


def leaving_later(disruption_pass: DisruptionPass) -> frozenset[str]:
    """Return the names of nodes to which a target moves no pods: short-lived ones, and empty ones that budgets let go.

    An empty node whose room a capacity buffer uses stays (`methods.emptiness`).
    """
    now, remaining = disruption_pass.snapshot.now, disruption_pass.budgets.remaining
    kept = disruption_pass.buffer_nodes
    return short_lived(disruption_pass) | {
        candidate.name
        for candidate in disruption_pass.survey.candidates
        if candidate.is_empty
        and candidate.name not in kept
        and not candidate.pool.is_static
        and candidate.is_consolidatable(now)
        and remaining.get(candidate.pool.name, {}).get(TerminationReason.EMPTY) != 0
    }
