"""Work messages: each names a claim or a command that has a next step. A failing one never fails the others."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final

from core.errors import InvalidInputError
from lambdas.controllers.claim_work import ClaimWork
from lambdas.controllers.cluster_look import ClusterLook
from lambdas.controllers.command_work import CommandWork
from lambdas.decisions import Outcome
from lambdas.messages import WorkItem, read_work
from lambdas.observability import logger
from lambdas.ports import Clock, CloudProvider, ConflictError, DeniedError, Kubernetes, PortError, Queue

AFTER_CONFLICT: Final = timedelta(seconds=1)
AFTER_FAULT: Final = timedelta(seconds=5)
AFTER_DENIAL: Final = timedelta(minutes=1)


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
    ) -> None:
        self._kubernetes = kubernetes
        self._cloud = cloud
        self._claim_work = claim_work
        self._command_work = command_work
        self._work = work
        self._clock = clock

    def run(self, records: Iterable[dict[str, Any]], outcome: Outcome) -> None:
        """Handle the messages of one SQS batch; those that failed in a way we do not know go back to the queue."""
        look = ClusterLook(self._kubernetes, self._cloud, self._clock)
        done: set[WorkItem] = set()
        for record in records:
            identifier = str(record.get("messageId", ""))
            outcome.count("messages")
            try:
                item = read_work(record.get("body"))
                subject = WorkItem(claim=item.claim, command=item.command)
                if subject not in done:
                    done.add(subject)
                    self._handle(item, look, outcome)
            except InvalidInputError as error:
                logger.warning("message cannot be read", extra={"problem": str(error)})
                outcome.failed_messages.append(identifier)
            except Exception:  # noqa: BLE001 - whatever is wrong with one message, the others are handled
                logger.exception("message failed", extra={"message_id": identifier})
                outcome.failed_messages.append(identifier)

    def _handle(self, item: WorkItem, look: ClusterLook, outcome: Outcome) -> None:
        try:
            if item.claim:
                delay = self._claim_work.advance(item.claim, look, outcome)
            else:
                delay = self._command_work.advance(item.command, look, outcome)
        except PortError as error:
            delay = _after(error)
            outcome.count("portErrors")
            outcome.decide("skip", item.claim or item.command, type(error).__name__, str(error))
        if delay is None:
            return
        if item.until is not None and self._clock.now() + delay <= item.until:
            self._work.send([item.to_message()], delay=delay)


def _after(error: PortError) -> timedelta:
    if isinstance(error, ConflictError):
        return AFTER_CONFLICT
    return AFTER_DENIAL if isinstance(error, DeniedError) else AFTER_FAULT
