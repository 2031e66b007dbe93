"""Stores commands for `execute`, once the ledger has their decision."""

from __future__ import annotations

from datetime import datetime
from hashlib import blake2b

from adapters.ledger.writer import LedgerWriter, SearchBound
from adapters.messages import work_on_command
from adapters.ports import Clock, ConflictError, Queue, TooLargeError
from adapters.run_report import RunReport
from adapters.store import CommandStore
from core.disruption.consolidation.payback import payback_minutes
from core.ledger.entry import DISRUPT
from core.ledger.search_time import RecordedTime
from core.ledger.summary import of_disruption
from core.lifecycle.commands import first_check_at
from core.lifecycle.records import CommandRecord
from core.model.plan import Command, DisruptionPlan, StoredTarget
from core.model.snapshot import Snapshot
from core.reasons.command import CommandReason
from core.reasons.decision import DecisionKind
from core.reasons.termination import TerminationReason
from installation.metric_names import REFUSED_COMMANDS
from lambdas.controllers.approval.approvals import CommandsByApproval


class CommandWriter:
    """Writes decisions to the ledger and their commands to the table, and requests each command's first check."""

    def __init__(self, commands: CommandStore, ledger: LedgerWriter, work: Queue, clock: Clock) -> None:
        self._commands = commands
        self._ledger = ledger
        self._work = work
        self._clock = clock

    @property
    def keeps_decisions(self) -> bool:
        """Whether decisions are written to a ledger."""
        return self._ledger.is_kept

    def write_decision(
        self,
        snapshot: Snapshot,
        plan: DisruptionPlan,
        commands: CommandsByApproval,
        time: RecordedTime,
        report: RunReport,
    ) -> CommandsByApproval:
        """Write the decision to the ledger and return the commands to store.

        If that fails, only unhealthy nodes are replaced.
        """
        bound = SearchBound(snapshot.options.improve_iterations, tuple(time.elapsed))
        draft = self._ledger.draft(DISRUPT, snapshot, plan, bound)
        report.decision_id = draft.id
        unapproved = [(found.id, found.command, found.why) for found in commands.unapproved]
        if self._ledger.try_write(draft, of_disruption(plan, commands.startable, unapproved), report):
            return commands
        unhealthy = [
            (name, command) for name, command in commands.startable if command.reason == TerminationReason.UNHEALTHY
        ]
        return CommandsByApproval(unhealthy, [])

    def write(
        self, command_id: str, command: Command, report: RunReport, continued: StoredTarget | None = None
    ) -> None:
        """Store a command and request its first check. Raises PortError.

        `continued` is the target that the command continues.
        """
        now = self._clock.now()
        record = CommandRecord(
            id=command_id,
            decision=report.decision_id,
            command=command,
            created_at=now,
            phase_since=now,
            verify_at=first_check_at(command, continued, now),
        )
        try:
            self._commands.add(record)
        except ConflictError:
            report.decide(
                DecisionKind.SKIP, record.id, CommandReason.ALREADY_DECIDED, "an earlier attempt of this run stored it"
            )
        except TooLargeError as error:  # the other commands are stored nevertheless
            report.count(REFUSED_COMMANDS)
            report.decide(DecisionKind.SKIP, record.id, CommandReason.COMMAND_REFUSED, str(error))
            return
        self._work.send([work_on_command(record.id, now)], delay=record.verify_at - now)
        _report(command, report)


def command_id(command: Command, now: datetime) -> str:
    """Return the id of a command that is decided now: equal for equal claims, reason and time."""
    text = "/".join((now.isoformat(), command.reason, *command.claims))
    return blake2b(text.encode(), digest_size=5).hexdigest()


def _report(command: Command, report: RunReport) -> None:
    """Report for each node why it goes and what that saves."""
    minutes = payback_minutes(command)
    paid = "" if minutes is None else f", paid for in {minutes} minutes"
    prices = (
        f"saves {command.savings / 10**9:.4f} USD/h with {len(command.replacements)} replacements "
        f"and {len(command.moves)} moved pods{paid}"
    )
    for node in command.nodes:
        report.decide(
            DecisionKind.DISRUPT,
            node,
            TerminationReason.stored(command.reason),
            f"{command.method}, {prices}, validated first",
        )
