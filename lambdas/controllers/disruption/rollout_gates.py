"""Stores the state of rollouts, and passes to decisions how many nodes they let go."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from adapters.observation.cluster_state import ClusterState
from adapters.run_report import RunReport
from adapters.store import MoveHistoryStore
from core.disruption.move_history import MoveHistory
from core.disruption.rollouts import Rollout, rollouts
from core.lifecycle import steps
from core.lifecycle.facts import CommandFacts
from core.lifecycle.records import CommandRecord
from core.reasons.command import CommandReason
from core.reasons.decision import DecisionKind
from core.reasons.node import NodeReason
from core.reasons.termination import TerminationReason
from installation.metric_names import ROLLOUTS_STOPPED

FAILURES: Final = (CommandReason.TIMEOUT, CommandReason.REPLACEMENT_LOST)
"""Reasons for abandoning a drift command that count against its rollout."""


def with_rollouts(moves: MoveHistoryStore, view: ClusterState, report: RunReport) -> ClusterState:
    """Return the view with the rollouts' gates, after storing the state of their new nodes."""
    now = view.snapshot.now
    known = moves.read(now).rollouts
    found = rollouts(view.snapshot, known)
    changed = {pool: seen.rollout for pool, seen in found.items() if known.get(pool) != seen.rollout}
    if changed:
        moves.write(MoveHistory(rollouts=changed), now)
    gates = {pool: seen.gate for pool, seen in found.items() if seen.gate is not None}
    for pool, gate in gates.items():
        if gate.is_stopped:
            report.count(ROLLOUTS_STOPPED)
            report.decide(DecisionKind.SKIP, pool, NodeReason.ROLLOUT_STOPPED, gate.message)
    snapshot = msgspec.structs.replace(view.snapshot, rollouts=gates)
    return msgspec.structs.replace(view, snapshot=snapshot) if gates else view


def failed_rollouts(
    moves: MoveHistoryStore, record: CommandRecord, facts: CommandFacts, step: steps.Abandon, now: datetime
) -> None:
    """Record that a drift command failed because its replacements did not become ready."""
    if record.command.reason != TerminationReason.DRIFTED or step.reason not in FAILURES:
        return
    known = moves.read(now).rollouts
    pools = sorted({facts.claims[name].plan.node_pool for name in record.command.claims if name in facts.claims})
    failed: dict[str, Rollout] = {
        pool: known[pool].after_failure(f"command {record.id}: {step.message}", now) for pool in pools if pool in known
    }
    if failed:
        moves.write(MoveHistory(rollouts=failed), now)
