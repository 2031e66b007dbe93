"""Charges launches to the consolidations that made them necessary, so that unprofitable ones are not repeated."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from adapters.observation.cluster_state import ClusterState
from adapters.ports import PortError, reason_of
from adapters.run_report import RunReport
from adapters.store import MoveHistoryStore
from core.disruption.move_history import LaunchedNode
from core.lifecycle.draining.cancellation import CONSOLIDATION
from core.lifecycle.records import ClaimRecord
from core.reasons.decision import DecisionKind


def note_launches(
    moves: MoveHistoryStore, records: Sequence[ClaimRecord], view: ClusterState, now: datetime, report: RunReport
) -> None:
    """Store which commands are charged for these claims. Never raises PortError: pods must not wait for this."""
    if not records:
        return
    try:
        history = moves.readable(now)
        if not history.outcomes:
            return
        changed = history.after_launch(_launches(records, view), now)
        if changed.outcomes or changed.workloads:
            moves.write(changed, now)
        report.count("workloadsWithUnpaidMoves", len(changed.workloads))
    except PortError as error:
        report.count("portErrors")
        report.decide(DecisionKind.SKIP, "move history", reason_of(error), str(error))


def _launches(records: Sequence[ClaimRecord], view: ClusterState) -> list[LaunchedNode]:
    """Return the workloads that the claims are for.

    Pods of a node that leaves for another reason are not charged to consolidation.
    """
    consolidated = {
        record.node_name
        for record in view.claims.values()
        if record.deletion is not None and record.deletion.reason in CONSOLIDATION
    }
    workloads = {
        pod.key: pod.workload for pod in view.snapshot.pods if not pod.node_name or pod.node_name in consolidated
    }
    return [
        LaunchedNode(
            workloads=frozenset(workloads[pod] for pod in record.plan.pods if pod in workloads),
            for_buffer=bool(record.plan.buffer_pods),
            price=record.plan.price,
        )
        for record in records
    ]
