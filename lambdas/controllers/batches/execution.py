"""Handles work messages: each names claims or a command that have a next step. A failing message does not affect the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from adapters.messages import WorkItem, read_work, redelivered
from adapters.ports import Clock, CloudProvider, Kubernetes, PortError, Queue, reason_of
from adapters.run_report import RunReport
from adapters.runtime.observability import logger
from adapters.runtime.parallel_tasks import RunTasks, Task
from core.errors import InvalidInputError
from core.reasons.decision import DecisionKind
from lambdas.controllers.batches.binding.pod_binder import PodBinder, TurnResult
from lambdas.controllers.batches.claim_group import BEGIN_WITHIN, HAND_BACK_AFTER, ClaimChecks, ClaimGroup
from lambdas.controllers.batches.next_checks import NextChecks
from lambdas.controllers.batches.retries import retry_after
from lambdas.controllers.disruption.execution.command_work import CommandWork
from lambdas.controllers.nodes.node_lists import NodeLists
from lambdas.controllers.nodes.node_state_reader import NodeStateReader

ANSWER_WITHIN: Final = timedelta(seconds=3)
"""Time reserved for the answer of the invocation. Without an answer, SQS hides the batch until its visibility timeout ends.
"""


class _Message(msgspec.Struct, frozen=True):
    """One message: its SQS id, its content, and the result."""

    id: str
    item: WorkItem
    report: RunReport


class Execution:
    """Controller of `execute`: one shared observation for all messages of a batch, then the next steps of each."""

    def __init__(
        self,
        kubernetes: Kubernetes,
        cloud: CloudProvider,
        claim_checks: ClaimChecks,
        command_work: CommandWork,
        binder: PodBinder,
        work: Queue,
        clock: Clock,
        run_tasks: RunTasks,
    ) -> None:
        self._kubernetes = kubernetes
        self._node_lists = NodeLists(kubernetes, clock)
        self._next_checks = NextChecks()
        self._cloud = cloud
        self._claim_checks = claim_checks
        self._command_work = command_work
        self._binder = binder
        self._work = work
        self._clock = clock
        self._run_tasks = run_tasks

    def run(self, records: Iterable[dict[str, Any]], report: RunReport, *, deadline: datetime) -> None:
        """Handle the messages of one SQS batch, claims in parallel and commands in turn.

        Messages that failed unexpectedly, and those unfinished close to `deadline`, go back to the queue.
        """
        reader = NodeStateReader(self._kubernetes, self._cloud, self._clock, self._node_lists)
        messages = _read(records, report)
        groups = [(message, self._group(message, names)) for message, names in _owners(messages) if names]
        commands = [message for message in messages if message.item.command]
        claims = [(message, group, name) for message, group in groups for name in group.names]
        tasks: list[Task] = [partial(group.advance, name, reader, deadline) for _, group, name in claims]
        # A command observes the whole cluster: two at once would need memory for two observations.
        tasks += [partial(self._handle_commands, commands, reader, deadline)] if commands else []
        ended = self._run_tasks(tasks, max(deadline - ANSWER_WITHIN - self._clock.now(), timedelta(0)))
        unfinished: set[str] = set()
        for (message, group, name), has_ended in zip(claims, ended, strict=False):
            if has_ended:
                message.report.add(group.reports[name])
            else:
                unfinished.add(message.id)
        unfinished |= {message.id for message in commands if not ended[-1]}
        self._bind(
            [group for message, group in groups if group.binding and message.id not in unfinished], report, deadline
        )
        failed = {message.id for message, group in groups if group.has_failed}
        for message in messages:
            self._conclude(message, report, is_finished=message.id not in unfinished, has_failed=message.id in failed)

    def _bind(self, groups: Sequence[ClaimGroup], report: RunReport, deadline: datetime) -> None:
        """Give all claims of the batch whose nodes are ready one common turn: their pods may wait for each other."""
        names = sorted(name for group in groups for name in group.binding)
        if not names:
            return
        turn = TurnResult(HAND_BACK_AFTER)
        try:
            if self._clock.now() + BEGIN_WITHIN <= deadline:
                turn = self._binder.run(names, report)
        except PortError as error:
            turn = TurnResult(retry_after(error, 0))
            report.count("portErrors")
            report.decide(DecisionKind.SKIP, names[0], reason_of(error), str(error))
        _after_turn(groups, turn.delay)
        self._binder.publish(turn)

    def _conclude(self, message: _Message, report: RunReport, *, is_finished: bool, has_failed: bool) -> None:
        if is_finished or message.item.claim_names:
            report.add(message.report)
        if not is_finished:
            report.count("unfinishedMessages")
        if has_failed or not is_finished:
            report.failed_messages.append(message.id)

    def _group(self, message: _Message, names: Sequence[str]) -> ClaimGroup:
        checks = (self._claim_checks, self._next_checks)
        return ClaimGroup(message.item, names, message.report, *checks, self._work, self._clock)

    def _handle_commands(self, messages: Sequence[_Message], reader: NodeStateReader, deadline: datetime) -> None:
        for message in messages:
            try:
                if self._clock.now() + BEGIN_WITHIN > deadline:
                    self._work.send([message.item.to_message()], delay=HAND_BACK_AFTER)
                    message.report.count("handedBack")
                else:
                    self._handle_command(message.item, reader, message.report)
            except Exception:  # noqa: BLE001 - an error of one message must not stop the others
                logger.exception("message failed", extra={"message_id": message.id})
                message.report.failed_messages.append(message.id)

    def _handle_command(self, item: WorkItem, reader: NodeStateReader, report: RunReport) -> None:
        failures = 0
        try:
            delay = self._command_work.advance(item.command, reader, report)
        except PortError as error:
            delay, failures = retry_after(error, item.failures), item.failures + 1
            report.count("portErrors")
            report.decide(DecisionKind.SKIP, item.command, reason_of(error), str(error))
        if delay is None:
            return
        if item.until is not None and self._clock.now() + delay <= item.until:
            self._work.send([msgspec.structs.replace(item, failures=failures).to_message()], delay=delay)


def _after_turn(groups: Sequence[ClaimGroup], delay: timedelta) -> None:
    """Request the next checks of all claims that had the turn; those whose chains end at the same time share a message."""
    first: dict[datetime | None, ClaimGroup] = {}
    for group in groups:
        if first.setdefault(group.until, group) is not group:
            first[group.until].binding += group.binding
    for group in first.values():
        group.after_turn(delay)
    for group in groups:
        group.has_failed |= first[group.until].has_failed


def _read(records: Iterable[dict[str, Any]], report: RunReport) -> list[_Message]:
    """Return the messages, for each command the one whose checks continue longest; unreadable ones are marked as failed."""
    found: list[_Message] = []
    commands: dict[str, _Message] = {}
    for record in records:
        identifier = str(record.get("messageId", ""))
        report.count("messages")
        try:
            item = redelivered(read_work(record.get("body")), _deliveries(record))
        except InvalidInputError as error:
            logger.warning("message cannot be read", extra={"problem": str(error)})
            report.failed_messages.append(identifier)
            continue
        message = _Message(identifier, item, report.part())
        if not item.command:
            found.append(message)
        elif item.command not in commands or _lasts_until(item) > _lasts_until(commands[item.command].item):
            commands[item.command] = message
    return [*found, *commands.values()]


def _deliveries(record: dict[str, Any]) -> int:
    """Return how often SQS has delivered the message, one if unknown."""
    return int(record.get("attributes", {}).get("ApproximateReceiveCount", 1))


def _owners(messages: Sequence[_Message]) -> list[tuple[_Message, tuple[str, ...]]]:
    """Return the messages about claims, each with the claims for which it has the highest weight."""
    owner: dict[str, _Message] = {}
    for message in messages:
        for name in message.item.claim_names:
            if name not in owner or _weight(message.item) > _weight(owner[name].item):
                owner[name] = message
    return [
        (message, tuple(dict.fromkeys(name for name in message.item.claim_names if owner[name] is message)))
        for message in messages
        if message.item.claim_names
    ]


def _weight(item: WorkItem) -> tuple[bool, bool, datetime]:
    """Return the weight of a message about a claim: notices come first, since only they are not repeated by `reconcile`."""
    return item.notice is not None, item.is_news, _lasts_until(item)


def _lasts_until(item: WorkItem) -> datetime:
    return item.until or datetime.min.replace(tzinfo=UTC)
