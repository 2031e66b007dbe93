"""Work messages: each names a claim or a command that has a next step. A failing one never fails the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from core.errors import InvalidInputError
from core.reasons.decision import DecisionKind
from lambdas.controllers.batches.side_by_side import RunTasks, Task
from lambdas.controllers.disruption.command_work import CommandWork
from lambdas.controllers.node_lifecycle.claim_work import ClaimWork
from lambdas.controllers.nodes.node_lists import NodeLists
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from lambdas.messages import WorkItem, read_work
from lambdas.observability import logger
from lambdas.ports import (
    Clock,
    CloudProvider,
    ConflictError,
    DeniedError,
    Kubernetes,
    PortError,
    Queue,
    ThrottledError,
    reason_of,
)
from lambdas.run_report import RunReport

AFTER_CONFLICT: Final = timedelta(seconds=1)
AFTER_FAULT: Final = timedelta(seconds=5)
AFTER_DENIAL: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(seconds=30)
"""Between two looks that fail; a spot instance is there for two minutes, so no look is put off for longer."""

DOUBLINGS: Final = 8
"""More would be beyond `LONGEST` from any beginning."""

BEGIN_WITHIN: Final = timedelta(seconds=25)
"""No message is begun with less time than this left: about what one call may take that times out and is tried again."""

HAND_BACK_AFTER: Final = timedelta(seconds=1)
"""Until a message that was not begun is delivered anew, to an invocation with all its time."""

ANSWER_WITHIN: Final = timedelta(seconds=3)
"""Kept at the end of the invocation for its answer: without one, SQS hides the whole batch until its visibility ends."""


class _Message(msgspec.Struct, frozen=True):
    """One message: SQS' id of it, what it asks for, and what came of it."""

    id: str
    item: WorkItem
    report: RunReport


class Execution:
    """What `execute` does: one look shared by all messages of a batch, then the next steps of each."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        cloud: CloudProvider,
        claim_work: ClaimWork,
        command_work: CommandWork,
        work: Queue,
        clock: Clock,
        run_tasks: RunTasks,
    ) -> None:
        self._kubernetes = kubernetes
        self._node_lists = NodeLists(kubernetes, clock)
        self._cloud = cloud
        self._claim_work = claim_work
        self._command_work = command_work
        self._work = work
        self._clock = clock
        self._run_tasks = run_tasks

    def run(self, records: Iterable[dict[str, Any]], report: RunReport, *, deadline: datetime) -> None:
        """Handle the messages of one SQS batch, claims beside each other and commands in turn.

        Messages that failed in a way we do not know, and those not through close to `deadline`, go back to the queue.
        """
        reader = NodeStateReader(self._kubernetes, self._cloud, self._clock, self._node_lists)
        messages = _read(records, report)
        claims = [message for message in messages if message.item.claim]
        commands = [message for message in messages if message.item.command]
        # A command looks at the whole cluster: two at once would hold it twice.
        batches = [*((message,) for message in claims), *([tuple(commands)] if commands else [])]
        tasks: list[Task] = [partial(self._handle_in_turn, batch, reader, deadline) for batch in batches]
        ended = self._run_tasks(tasks, max(deadline - ANSWER_WITHIN - self._clock.now(), timedelta(0)))
        for batch, has_ended in zip(batches, ended, strict=True):
            for message in batch:
                if has_ended:
                    report.add(message.report)
                else:
                    report.count("unfinishedMessages")
                    report.failed_messages.append(message.id)

    def _handle_in_turn(self, messages: Sequence[_Message], reader: NodeStateReader, deadline: datetime) -> None:
        for message in messages:
            try:
                if self._clock.now() + BEGIN_WITHIN > deadline:
                    self._work.send([message.item.to_message()], delay=HAND_BACK_AFTER)
                    message.report.count("handedBack")
                else:
                    self._handle(message.item, reader, message.report)
            except Exception:  # noqa: BLE001 - whatever is wrong with one message, the others are handled
                logger.exception("message failed", extra={"message_id": message.id})
                message.report.failed_messages.append(message.id)

    def _handle(self, item: WorkItem, reader: NodeStateReader, report: RunReport) -> None:
        failures = 0
        try:
            if item.claim:
                delay = self._claim_work.advance(item.claim, reader, report)
            else:
                delay = self._command_work.advance(item.command, reader, report)
        except PortError as error:
            delay, failures = _after(error, item.failures), item.failures + 1
            report.count("portErrors")
            report.decide(DecisionKind.SKIP, item.claim or item.command, reason_of(error), str(error))
        if delay is None:
            return
        if item.until is not None and self._clock.now() + delay <= item.until:
            self._work.send([msgspec.structs.replace(item, failures=failures).to_message()], delay=delay)


def _read(records: Iterable[dict[str, Any]], report: RunReport) -> list[_Message]:
    """The messages, of each claim and command the one whose looks go on longest; what cannot be read is marked as failed."""
    found: dict[WorkItem, _Message] = {}
    for record in records:
        identifier = str(record.get("messageId", ""))
        report.count("messages")
        try:
            item = read_work(record.get("body"))
        except InvalidInputError as error:
            logger.warning("message cannot be read", extra={"problem": str(error)})
            report.failed_messages.append(identifier)
            continue
        key = WorkItem(claim=item.claim, command=item.command)
        if key not in found or _lasts_until(item) > _lasts_until(found[key].item):
            found[key] = _Message(identifier, item, report.part())
    return list(found.values())


def _lasts_until(item: WorkItem) -> datetime:
    return item.until or datetime.min.replace(tzinfo=UTC)


def _after(error: PortError, failures: int) -> timedelta:
    """How long to leave it alone after an error that so many others came before: twice as long each time."""
    if isinstance(error, DeniedError):
        return AFTER_DENIAL
    if isinstance(error, ThrottledError) and error.retry_after:
        return max(AFTER_FAULT, error.retry_after)
    first = AFTER_CONFLICT if isinstance(error, ConflictError) else AFTER_FAULT
    return min(LONGEST, first * (1 << min(failures, DOUBLINGS)))
