"""Limits which commands of a decision may be stored now: brakes, and pauses after a failed validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from adapters.brakes.ports import skipped
from adapters.observation.cluster_state import ClusterState
from adapters.run_report import RunReport
from adapters.store import MoveHistoryStore
from core.brakes.brake import EngagedBrakes, action_of
from core.brakes.probes import one_at_a_time
from core.disruption.move_history import MoveHistory
from core.lifecycle.records import ClaimRecord
from core.model.plan import Command
from core.reasons.command import CommandReason
from core.reasons.decision import DecisionKind


class CommandGate:
    """Holds back commands that a brake stops or that recently failed validation, and reports them."""

    def __init__(self, moves: MoveHistoryStore) -> None:
        self._moves = moves

    def admit(
        self,
        commands: Sequence[Command],
        view: ClusterState,
        records: tuple[ClaimRecord, ...],
        brakes: EngagedBrakes,
        now: datetime,
        report: RunReport,
    ) -> Sequence[Command]:
        """Return the commands that may be stored in addition to those in progress. Raises PortError."""
        pool_of = {record.name: record.plan.node_pool for record in records}
        under_way = [found.command for found in view.commands]
        history = self._moves.read(now) if commands else MoveHistory()
        free = [
            found
            for found in commands
            if not _is_stopped(found, pool_of, brakes, report) and not _is_paused(found, history, now, report)
        ]
        return one_at_a_time(free, under_way, pool_of, brakes.probed_pools)


def _is_stopped(command: Command, pool_of: Mapping[str, str], brakes: EngagedBrakes, report: RunReport) -> bool:
    """Whether a brake stops this kind of command."""
    stopping = (brakes.stopping(action_of(command.reason), pool_of.get(claim, "")) for claim in command.claims)
    brake = next((found for found in stopping if found is not None), None)
    if brake is not None:
        skipped(brake, ", ".join(command.nodes), report)
    return brake is not None


def _is_paused(command: Command, history: MoveHistory, now: datetime, report: RunReport) -> bool:
    """Whether the same command recently failed validation."""
    if not history.is_paused(command, now):
        return False
    message = "it recently failed validation, so it is postponed"
    report.decide(DecisionKind.SKIP, ", ".join(command.nodes), CommandReason.FAILED_BEFORE, message)
    return True
