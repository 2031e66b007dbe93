"""Says why nodes stay, for `blocked[]` of the output: pods, the NodePool's rules, budgets, or what the methods found."""

from __future__ import annotations

from typing import Final

import msgspec

from core.disruption.candidate import Candidate
from core.disruption.consolidation import objection
from core.disruption.disruption_pass import DisruptionPass
from core.model.plan import Blocked
from core.model.snapshot import Snapshot
from core.reasons.code import TerminationReason
from core.reasons.nodes import NodeReason

_KEPT: Final = (
    NodeReason.NO_CHEAPER_OPTION,
    NodeReason.SPOT_TO_SPOT,
    NodeReason.PODS_UNSCHEDULABLE,
    NodeReason.TARGET_WAITS,
)
"""Why a target leaves a node, whatever the budgets of its NodePool are."""


def blocked_nodes(disruption_pass: DisruptionPass, snapshot: Snapshot) -> tuple[Blocked, ...]:
    """Return the reasons why each remaining node of the snapshot stays, by node; each code once per node."""
    present = {node.name for node in snapshot.nodes}
    blocking = list(disruption_pass.survey.blocked)
    for candidate in disruption_pass.survey.candidates:
        blocking += blocks(candidate, disruption_pass)
    by_code = {(block.node, block.reason): block for block in reversed(blocking) if block.node in present}
    return tuple(by_code[key] for key in sorted(by_code))


def blocks(candidate: Candidate, disruption_pass: DisruptionPass) -> list[Blocked]:
    """Return why a candidate stays: because of its pods, else its pool's rules, else budgets, else what the methods found."""
    unrepaired = disruption_pass.repair_refusals.get(candidate.name)
    rules = list(candidate.protected)
    if candidate.drift and candidate.may_drift:
        rules = [_drift_block(candidate, disruption_pass)]
    rule = objection(candidate, disruption_pass)
    if rule is not None and not candidate.drift:
        rules.append(rule)
    if unrepaired is not None:
        rules.append(unrepaired)
    return rules or [_method_block(candidate, disruption_pass)]


def _drift_block(candidate: Candidate, disruption_pass: DisruptionPass) -> Blocked:
    return _spent(candidate, disruption_pass, TerminationReason.DRIFTED) or _refused(candidate, disruption_pass)


def _method_block(candidate: Candidate, disruption_pass: DisruptionPass) -> Blocked:
    known = disruption_pass.refusals.get(candidate.name)
    if known is not None and known.reason in _KEPT and not disruption_pass.snapshot.options.karpenter_moves_only:
        return known  # the target keeps it, and larger budgets would not change that
    reason = TerminationReason.EMPTY if candidate.is_empty else TerminationReason.UNDERUTILIZED
    spent = _spent(candidate, disruption_pass, reason)
    if spent is not None and known is not None:
        return msgspec.structs.replace(spent, savings=known.savings)
    return spent or _refused(candidate, disruption_pass)


def _spent(candidate: Candidate, disruption_pass: DisruptionPass, reason: str) -> Blocked | None:
    """Return which budget or command of this pass keeps the candidate; None if none does."""
    refusal = disruption_pass.budgets.refusal(candidate, reason)
    return None if refusal is None else Blocked(candidate.name, refusal.reason, refusal.message)


def _refused(candidate: Candidate, disruption_pass: DisruptionPass) -> Blocked:
    waiting = Blocked(candidate.name, NodeReason.NOT_TRIED, f"the pass ended before node {candidate.name} was examined")
    return disruption_pass.refusals.get(candidate.name, waiting)
