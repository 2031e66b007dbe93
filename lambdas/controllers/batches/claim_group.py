"""Advances the claims of one message in parallel; the last to finish requests the next checks of all."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import ceil
from threading import Lock
from typing import Final

from adapters.messages import WorkItem, joined
from adapters.ports import Clock, PortError, Queue, reason_of
from adapters.run_report import RunReport
from adapters.runtime.observability import logger
from core.lifecycle.steps import BindPods
from core.reasons.decision import DecisionKind
from lambdas.controllers.batches.next_checks import NextChecks
from lambdas.controllers.batches.retries import AFTER_FAULT, retry_after
from lambdas.controllers.events.instance_notices import InstanceNotices
from lambdas.controllers.node_claims.hand_made_claims import HandMadeClaims
from lambdas.controllers.node_lifecycle.claim_work import ClaimWork
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from lambdas.controllers.sweeps.nodes.deleted_node_claims import DeletedNodeClaims

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
        )

    def _fail(self, name: str) -> None:
        """Have SQS redeliver the message; a failing claim of several gets a separate message."""
        if len(self.names) == 1:
            self.has_failed = True
        else:
            self._go_alone(WorkItem(claim=name, until=self._item.until), AFTER_FAULT)

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
        if until is None or due > until:
            return
        left = [name for name in names if not self._next_checks.is_asked(name, now, due, self._item)]
        for item in joined(left, until, due=due):
            self._work.send([item.to_message()], delay=delay)
        for name in left:
            self._next_checks.note(name, now, due, until)

    def _send(self, item: WorkItem, delay: timedelta) -> None:
        if item.until is not None and self._clock.now() + delay <= item.until:
            self._work.send([item.to_message()], delay=delay)
