"""Handles work messages: each names claims or a command that have a next step. A failing message does not affect the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from math import ceil
from threading import Lock
from typing import Any, Final

import msgspec

from adapters.messages import HOPS_MAX, WorkItem, joined, read_work, redelivered
from adapters.observability import logger
from adapters.ports import (
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
from adapters.run_report import RunReport
from adapters.runtime import RunTasks, Task
from core.errors import InvalidInputError
from core.lifecycle.steps import BindPods
from core.reasons.code import DecisionKind
from installation.metric_names import CHAINS_CUT
from lambdas.controllers.binding import PodBinder, TurnResult
from lambdas.controllers.command_work import CommandWork
from lambdas.controllers.hand_made_claims import HandMadeClaims
from lambdas.controllers.instance_notices import InstanceNotices
from lambdas.controllers.node_claims import DeletedNodeClaims
from lambdas.controllers.node_lifecycle import ClaimWork
from lambdas.controllers.nodes import NodeLists, NodeStateReader

# Tracks the checks that this sandbox has requested: several messages about one claim need only one next check.


REMEMBERED: Final = 5_000
"""The most tracked claims; each is dropped once its check is due."""


class _Check(msgspec.Struct, frozen=True):
    due: datetime
    until: datetime


class NextChecks:
    """The requests of one sandbox. Sandboxes do not share them, so a check may be requested twice, but none is missed."""

    def __init__(self) -> None:
        self._asked: dict[str, _Check] = {}

    def is_asked(self, claim: str, now: datetime, due: datetime, item: WorkItem) -> bool:
        """Whether another message than `item` checks the claim by `due`, and its chain lasts at least as long."""
        check = self._asked.get(claim)
        if check is None or item.until is None or check.due == item.due:
            return False
        return now < check.due <= due and check.until >= item.until

    def note(self, claim: str, now: datetime, due: datetime, until: datetime) -> None:
        """Record a request."""
        if len(self._asked) >= REMEMBERED:
            self._asked = {name: check for name, check in self._asked.items() if check.due > now}
        self._asked[claim] = _Check(due, until)


# Retry delays after failures.


AFTER_CONFLICT: Final = timedelta(seconds=1)
AFTER_FAULT: Final = timedelta(seconds=5)
AFTER_DENIAL: Final = timedelta(minutes=1)
LONGEST: Final = timedelta(seconds=30)
"""The longest delay by doubling: a spot notice is two minutes.

Only denials, which a person has to resolve, and delays that a server requests (bounded where they are read) are longer.
"""

DOUBLINGS: Final = 8
"""More doublings would exceed `LONGEST` from any start."""


def retry_after(error: PortError, failures: int) -> timedelta:
    """Return how long to wait after an error that follows this many others; the delay doubles each time."""
    if isinstance(error, DeniedError):
        return AFTER_DENIAL
    if isinstance(error, ThrottledError) and error.retry_after:
        return max(AFTER_FAULT, error.retry_after)
    first = AFTER_CONFLICT if isinstance(error, ConflictError) else AFTER_FAULT
    return min(LONGEST, first * (1 << min(failures, DOUBLINGS)))


# Advances the claims of one message in parallel; the last to finish requests the next checks of all.


BEGIN_WITHIN: Final = timedelta(seconds=25)
"""No work begins with less remaining time than this: about the time of one call that times out and is retried."""

HAND_BACK_AFTER: Final = timedelta(seconds=1)
"""Delay until work that was not started is delivered again, to an invocation with its full time."""


class ClaimChecks:
    """One check of a claim."""

    def __init__(
        self,
        claim_work: ClaimWork,
        deleted: DeletedNodeClaims,
        hand_made: HandMadeClaims,
        notices: InstanceNotices,
    ) -> None:
        self._claim_work = claim_work
        self._deleted = deleted
        self._hand_made = hand_made
        self._notices = notices

    def take_on(self, item: WorkItem, name: str, report: RunReport) -> timedelta | None:
        """Act on the message's notice, and store a claim for a hand-made NodeClaim or an instance that has none.

        Returns:
            When to check again, None to continue now.

        Raises:
            PortError: If a step fails; the next check continues.
        """
        if item.notice is not None:
            self._notices.act(item.notice, report)
        return self._hand_made.check(name, report) if item.is_made or item.is_deleted else None

    def take(
        self, name: str, reader: NodeStateReader, report: RunReport, item: WorkItem
    ) -> timedelta | BindPods | None:
        """Handle a reported deletion of the NodeClaim, then call `ClaimWork.advance`. Raises PortError."""
        if item.is_deleted:
            self._deleted.check(name, report)
        return self._claim_work.advance(name, reader, report, until=item.until, is_first=item.due is None)


class ClaimGroup:
    """The claims of one message.

    A failing claim continues in a separate message, which counts its failures and may end in the dead-letter queue without the
    others.

    Attributes:
        reports: The report on each claim.
        binding: Claims whose pods may be bound now.
        until: End of its chain of checks.
        has_failed: Whether the message must be delivered again.
    """

    def __init__(
        self,
        item: WorkItem,
        names: Sequence[str],
        report: RunReport,
        claim_checks: ClaimChecks,
        next_checks: NextChecks,
        work: Queue,
        clock: Clock,
    ) -> None:
        self.names = tuple(names)
        self.reports = {name: report.part() for name in names}
        self.binding: list[str] = []
        self.has_failed = False
        self.until = item.until
        self._item = item
        self._claim_checks = claim_checks
        self._next_checks = next_checks
        self._work = work
        self._clock = clock
        self._lock = Lock()
        self._unfinished = len(self.names)
        self._waiting: dict[timedelta, list[str]] = {}
        self._alone: list[tuple[WorkItem, timedelta]] = []

    def advance(self, name: str, reader: NodeStateReader, deadline: datetime) -> None:
        """Take a claim's next steps; raises nothing."""
        try:
            if self._clock.now() + BEGIN_WITHIN > deadline:
                self.reports[name].count("handedBack")
                if self._item.is_news:
                    self._go_alone(self._about(name), HAND_BACK_AFTER)
                else:
                    self._wait(name, HAND_BACK_AFTER)
            else:
                self._check(name, reader)
        except Exception:  # noqa: BLE001 - an error of one claim must not stop the others
            logger.exception("claim failed", extra={"claim": name})
            self._fail(name)
        with self._lock:
            self._unfinished -= 1
            is_last = self._unfinished == 0
        if is_last:
            self._ask_again()

    def _check(self, name: str, reader: NodeStateReader) -> None:
        report = self.reports[name]
        try:
            again_after = self._claim_checks.take_on(self._item, name, report)
            if again_after is not None:
                self._go_alone(self._about(name), again_after)
                return
            delay = self._claim_checks.take(name, reader, report, self._item)
        except PortError as error:
            report.count("portErrors")
            report.decide(DecisionKind.SKIP, name, reason_of(error), str(error))
            failures = self._item.failures
            self._go_alone(self._about(name, failures=failures + 1), retry_after(error, failures))
            return
        if isinstance(delay, BindPods):
            with self._lock:
                self.binding.append(name)
        elif delay is not None:
            self._wait(name, delay)

    def after_turn(self, delay: timedelta) -> None:
        """Request the next checks of the claims whose pods had a turn."""
        with self._lock:
            self._waiting, self._alone = {delay: self.binding}, []
        self._ask_again()

    def _about(self, name: str, *, failures: int = 0) -> WorkItem:
        """Return a copy of this message about one of its claims."""
        item = self._item
        return WorkItem(
            claim=name,
            until=item.until,
            failures=failures,
            is_deleted=item.is_deleted,
            is_made=item.is_made,
            notice=item.notice,
            hops=item.hops + 1,
        )

    def _fail(self, name: str) -> None:
        """Have SQS redeliver the message; a failing claim of several gets a separate message."""
        if len(self.names) == 1:
            self.has_failed = True
        else:
            self._go_alone(WorkItem(claim=name, until=self._item.until, hops=self._item.hops + 1), AFTER_FAULT)

    def _wait(self, name: str, delay: timedelta) -> None:
        """Note when to check again, in whole seconds as SQS counts: claims with the same delay share a message."""
        seconds = timedelta(seconds=ceil(delay.total_seconds()))
        with self._lock:
            self._waiting.setdefault(seconds, []).append(name)

    def _go_alone(self, item: WorkItem, delay: timedelta) -> None:
        with self._lock:
            self._alone.append((item, delay))

    def _ask_again(self) -> None:
        try:
            for delay, names in sorted(self._waiting.items()):
                self._ask_for(sorted(names), delay)
            for item, delay in self._alone:
                self._send(item, delay)
        except Exception:  # noqa: BLE001 - the message is redelivered and repeats the request
            logger.exception("next checks could not be requested", extra={"claims": self.names})
            self.has_failed = True

    def _ask_for(self, names: Sequence[str], delay: timedelta) -> None:
        """Request the next checks of these claims, except of those that another message checks as early and for as long."""
        now, until = self._clock.now(), self._item.until
        due = now + delay
        if until is None or due > until or self._is_too_long(names):
            return
        unasked = [name for name in names if not self._next_checks.is_asked(name, now, due, self._item)]
        for item in joined(unasked, until, due=due, hops=self._item.hops + 1):
            self._work.send([item.to_message()], delay=delay)
        for name in unasked:
            self._next_checks.note(name, now, due, until)

    def _send(self, item: WorkItem, delay: timedelta) -> None:
        if item.until is None or self._clock.now() + delay > item.until or self._is_too_long(item.claim_names):
            return
        self._work.send([item.to_message()], delay=delay)

    def _is_too_long(self, names: Sequence[str]) -> bool:
        """Whether the chain of checks is cut here; `reconcile` begins a new one."""
        return _is_cut(self._item, names[0], self.reports[names[0]])


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
                    self._send(message.item, HAND_BACK_AFTER, message.report)
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
            self._send(msgspec.structs.replace(item, failures=failures), delay, report)

    def _send(self, item: WorkItem, delay: timedelta, report: RunReport) -> None:
        if not _is_cut(item, item.command, report):
            self._work.send([msgspec.structs.replace(item, hops=item.hops + 1).to_message()], delay=delay)


def _is_cut(item: WorkItem, subject: str, report: RunReport) -> bool:
    """Whether the message is one of a chain that does not end by itself, so that it must not be followed by another."""
    if item.hops < HOPS_MAX:
        return False
    report.count(CHAINS_CUT)
    logger.error("chain of messages cut", extra={"subject": subject, "hops": item.hops})
    return True


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
    messages: list[_Message] = []
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
            messages.append(message)
        elif item.command not in commands or _lasts_until(item) > _lasts_until(commands[item.command].item):
            commands[item.command] = message
    return [*messages, *commands.values()]


DIGITS_MAX: Final = 4
"""The most digits of a number of deliveries: SQS delivers a message again some hundred times at most."""


def _deliveries(record: dict[str, Any]) -> int:
    """Return how often SQS has delivered the message, one if unknown."""
    counted = str((record.get("attributes") or {}).get("ApproximateReceiveCount", ""))
    return int(counted) if counted.isdecimal() and len(counted) <= DIGITS_MAX else 1


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
