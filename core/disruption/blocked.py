"""Says why nodes stay, for `blocked[]` of the output: pods, the NodePool's rules, budgets, or what the methods found."""

from __future__ import annotations

from typing import Final

from core.disruption.candidate import Candidate
from core.disruption.consolidation import objection
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Blocked
from core.model.snapshot import Snapshot
from core.reasons.code import Refusal, TerminationReason
from core.reasons.nodes import NodeReason, NotTried

_KEPT: Final = (
    NodeReason.NO_CHEAPER_OPTION,
    NodeReason.SPOT_TO_SPOT,
    NodeReason.PODS_UNSCHEDULABLE,
    NodeReason.TARGET_WAITS,
)
"""Why a target leaves a node, whatever the budgets of its NodePool are."""


def blocked_nodes(disruption_pass: DisruptionPass, snapshot: Snapshot) -> tuple[Blocked, ...]:
    """Return the reasons why each remaining node of the snapshot stays in words, by node; each code once per node."""
    present = {node.name for node in snapshot.nodes}
    refusals = [(name, why, 0) for name, kept in disruption_pass.survey.blocked.items() for why in kept]
    for candidate in disruption_pass.survey.candidates:
        refusals += [(candidate.name, why, savings) for why, savings in _refusals(candidate, disruption_pass)]
    by_code = {
        (name, why.reason): Blocked(name, why.reason, why.message, savings)
        for name, why, savings in reversed(refusals)
        if name in present
    }
    return tuple(by_code[key] for key in sorted(by_code))


def blocks(candidate: Candidate, disruption_pass: DisruptionPass) -> list[Refusal]:
    """Return why a candidate stays: because of its pods, else its pool's rules, else budgets, else what the methods found."""
    return [refusal for refusal, _ in _refusals(candidate, disruption_pass)]


def _refusals(candidate: Candidate, disruption_pass: DisruptionPass) -> list[tuple[Refusal, int]]:
    """Return the same with what the candidate's later removal saves, for what keeps it from a method."""
    unrepaired = disruption_pass.repair_refusals.get(candidate.name)
    rules = list(candidate.protected)
    of_drift: list[tuple[Refusal, int]] = []
    if candidate.drift and candidate.may_drift:
        rules, of_drift = [], [_from_drift(candidate, disruption_pass)]
    rule = objection(candidate, disruption_pass)
    if rule is not None and not candidate.drift:
        rules.append(rule)
    if unrepaired is not None:
        rules.append(unrepaired)
    return [*of_drift, *((refusal, 0) for refusal in rules)] or [_from_methods(candidate, disruption_pass)]


def _from_drift(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[Refusal, int]:
    spent = disruption_pass.budgets.refusal(candidate, TerminationReason.DRIFTED)
    return (spent, 0) if spent is not None else _refused(candidate, disruption_pass)


def _from_methods(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[Refusal, int]:
    refusal, savings = _refused(candidate, disruption_pass)
    if refusal.reason in _KEPT and not disruption_pass.snapshot.options.karpenter_moves_only:
        return refusal, savings  # the target keeps it, and larger budgets would not change that
    reason = TerminationReason.EMPTY if candidate.is_empty else TerminationReason.UNDERUTILIZED
    return disruption_pass.budgets.refusal(candidate, reason) or refusal, savings


def _refused(candidate: Candidate, disruption_pass: DisruptionPass) -> tuple[Refusal, int]:
    """Return what a method recorded about the candidate."""
    refusal = disruption_pass.refusals.get(candidate.name)
    return (
        (NotTried(candidate.name), 0)
        if refusal is None
        else (refusal, disruption_pass.later_savings.get(candidate.name, 0))
    )
