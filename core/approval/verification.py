"""Checks proposals against a new snapshot, and keeps their nodes out of other decisions while they wait."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from core.approval.proposal import ApprovalRule, Proposal, moved_namespaces, namespaces_by_node, namespaces_of
from core.disruption.node_health import HealthCheck
from core.disruption.validation import Validation
from core.model.plan import Command, Hold
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.reasons.code import Refusal
from core.reasons.nodes import NodeReason
from core.reasons.runs import OTHER_COMMAND, ApprovalOver, Invalid, Lapsed, MovesMore


class Verification:
    """Applies the validation of a command (`core.disruption.validation`) to each proposal alone.

    Whether a proposal holds does not depend on NodePools' budgets: it uses none while it waits, and they may be closed when a
    person reads it.
    """

    def __init__(self, proposals: Sequence[Proposal], rule: ApprovalRule, snapshot: Snapshot) -> None:
        options = msgspec.structs.replace(snapshot.options, ignore_budgets=True)
        self._commands = [proposal.command for proposal in proposals]
        self._rule = rule
        self._snapshot = snapshot
        self._namespaces = namespaces_by_node(snapshot)
        self._unbounded = Validation(self._commands, msgspec.structs.replace(snapshot, options=options))
        self._bounded: Validation | None = None

    def lapse(self, proposal: Proposal) -> Refusal | None:
        """Return why the proposal no longer holds, None if it does."""
        now = self._snapshot.now
        if now >= proposal.expires_at:
            return ApprovalOver(proposal.is_approved, proposal.expires_at)
        if proposal.is_rejected:
            return None
        verdict = self._unbounded.check(proposal.command)
        if isinstance(verdict, Refusal):
            return Lapsed(verdict)
        if not _is_same(verdict.command, proposal.command):
            return OTHER_COMMAND
        announced = namespaces_of(proposal.command).union(proposal.namespaces)
        guarded = self._rule.guarded(moved_namespaces(proposal.command, self._namespaces) - announced)
        return MovesMore(tuple(guarded)) if guarded else None

    def start(self, proposal: Proposal) -> Command | Refusal:
        """Return the command of an approved proposal that holds for all its nodes, or the budget that it waits for.

        Earlier returned commands count against budgets: call it in the order in which commands start.
        """
        if self._bounded is None:
            self._bounded = Validation(self._commands, self._snapshot)
        verdict = self._bounded.check(proposal.command)
        if isinstance(verdict, Refusal):
            return verdict
        if verdict.left_out:  # what was approved starts as a whole
            return Invalid(next(iter(verdict.left_out.values())))
        self._bounded.carry_out(verdict.command)
        return verdict.command


def without_proposed(snapshot: Snapshot, proposals: Sequence[Proposal]) -> Snapshot:
    """Return the snapshot with the proposals' nodes exempt from other commands, unhealthy ones apart."""
    waiting = {claim: proposal for proposal in proposals for claim in proposal.command.claims}
    if not waiting:
        return snapshot
    states = state_nodes(snapshot)
    unhealthy = HealthCheck(states, snapshot.now).due(states) if snapshot.options.feature_gates.node_repair else ()
    claims = tuple(
        msgspec.structs.replace(claim, hold=_hold(waiting[claim.name]))
        if claim.name in waiting and claim.name not in unhealthy
        else claim
        for claim in snapshot.node_claims
    )
    return msgspec.structs.replace(snapshot, node_claims=claims)


def _hold(proposal: Proposal) -> Hold:
    until = f"{proposal.expires_at:%Y-%m-%d %H:%M} UTC"
    if proposal.is_rejected and proposal.verdict is not None:
        message = f"proposal {proposal.id} was rejected by {proposal.verdict.by}; it is left alone until {until}"
        return Hold(proposal.expires_at, NodeReason.PROPOSAL_REJECTED, message)
    message = f"proposal {proposal.id} waits until {until}: {proposal.why}"
    return Hold(proposal.expires_at, NodeReason.AWAITS_APPROVAL, message)


def _is_same(decided: Command, command: Command) -> bool:
    pools, planned = ([claim.node_pool for claim in proposed.replacements] for proposed in (command, decided))
    return (decided.nodes, decided.reason, planned) == (command.nodes, command.reason, pools)
