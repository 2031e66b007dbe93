"""Lambda's event source mapping of a queue, over SQS' real interface: batches, the window, partial failures, redelivery."""

from __future__ import annotations

import heapq
import itertools
import json
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from installation.wiring import FunctionSpec, QueueSpec
from simulator.aws.queues import Lineage
from simulator.aws.session import next_fire
from simulator.events import QueuedMessage, is_dropped, lineage_of, queue_event
from tests.e2e.functions.account import Functions
from tests.e2e.functions.runtime_api import lineage_in
from tests.e2e.functions.sandbox import OK

RECEIVE_MAX: Final = 10
"""What SQS gives at one call."""

IDLE_SECONDS: Final = 0.2
"""How often a source looks whether it is paused or has room again; and how long it lets messages gather that come together."""

EMPTY_SECONDS: Final = 2.0
"""Between two looks at an empty queue that nobody has sent anything to: a message may come back by itself."""

CONCURRENCY_MIN: Final = 2
"""SQS event sources accept no lower bound, see `infra`."""


class EventSource:
    """Carries one queue's messages to its function until it is closed, `at_once` batches at most.

    Attributes:
        url: The queue's.
        dropped: How many batches had too long a chain for the function (docs/engineering/aws-facts.md#lambda-loops).
    """

    def __init__(
        self, sqs: Any, url: str, queue: QueueSpec, function: FunctionSpec, functions: Functions, *, at_once: int
    ) -> None:
        self._sqs = sqs
        self.url = url
        self._queue = queue
        self._function = function
        self._functions = functions
        self._slots = threading.Semaphore(min(at_once, max(CONCURRENCY_MIN, function.concurrency or CONCURRENCY_MIN)))
        self._is_open = True
        self._receiving = threading.Event()
        self._receiving.set()
        self._idle = threading.Event()
        self._sent = threading.Event()
        self._lineages: dict[str, Lineage] = {}
        self.dropped = 0

    def start(self, workers: Executor) -> None:
        """Begin; batches are run by `workers`."""
        self._workers = workers
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def pause(self) -> None:
        """Take no more messages until `resume`; returns when what was taken is on its way."""
        self._receiving.clear()
        self._sent.set()
        self._idle.wait()

    def resume(self) -> None:
        """Take messages again."""
        self._receiving.set()

    def poll(self) -> None:
        """Receive now: there may be a message. Lambda's long polling would keep a core of a local server busy."""
        self._sent.set()

    def close(self) -> None:
        """Take no more messages."""
        self._is_open = False
        self._sent.set()
        self._thread.join()

    def _run(self) -> None:
        while self._is_open:
            if not self._receiving.is_set():
                self._idle.set()
                self._receiving.wait(IDLE_SECONDS)
                continue
            self._idle.clear()
            if not self._slots.acquire(timeout=IDLE_SECONDS):
                continue
            self._sent.clear()
            batch = self._batch()
            if not batch:
                self._slots.release()
                self._sent.wait(EMPTY_SECONDS)
                time.sleep(IDLE_SECONDS)
                continue
            self._workers.submit(self._deliver, batch)
        self._idle.set()

    def _batch(self) -> list[QueuedMessage]:
        """What the window gathers, which begins with the first message."""
        found = self._receive(RECEIVE_MAX)
        if not found:
            return []
        end = time.monotonic() + self._queue.batch_window.total_seconds()
        while len(found) < self._queue.batch_size:
            more = self._receive(min(RECEIVE_MAX, self._queue.batch_size - len(found)))
            found += more
            if not more:
                if not self._is_open or time.monotonic() >= end:
                    break
                self._sent.wait(max(0.0, end - time.monotonic()))
                self._sent.clear()
        return found

    def _receive(self, at_most: int) -> list[QueuedMessage]:
        try:
            answer = self._sqs.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=at_most,
                VisibilityTimeout=int(self._queue.visibility.total_seconds()),
                MessageSystemAttributeNames=["All"],
            )
        except (ClientError, BotoCoreError):
            return []
        messages = answer.get("Messages", ())
        for found in messages:
            self._lineages[found["MessageId"]] = lineage_in(found["Attributes"].get("AWSTraceHeader", ""))
        return [_message(found) for found in messages]

    def _deliver(self, batch: list[QueuedMessage]) -> None:
        try:
            event = queue_event(self._queue.name, batch)
            lineage = lineage_of(self._lineages.pop(message.id, {}) for message in batch)
            if is_dropped(self._function, lineage):  # the messages come back when their visibility timeout ends
                self.dropped += 1
                return
            invocation = self._functions.invoke(self._function, event, f"queue:{self._queue.name}", lineage)
            if invocation.outcome == OK:
                kept = _failed(invocation.response)
                self._delete([message for message in batch if message.id not in kept])
        finally:
            self._slots.release()

    def _delete(self, done: list[QueuedMessage]) -> None:
        for start in range(0, len(done), RECEIVE_MAX):
            some = done[start : start + RECEIVE_MAX]
            entries = [{"Id": str(i), "ReceiptHandle": message.receipt} for i, message in enumerate(some)]
            self._sqs.delete_message_batch(QueueUrl=self.url, Entries=entries)


def _failed(response: Any) -> set[str]:
    failures = response.get("batchItemFailures") if isinstance(response, Mapping) else None
    return {failure["itemIdentifier"] for failure in failures or ()}


def _message(found: Mapping[str, Any]) -> QueuedMessage:
    attributes = found["Attributes"]
    return QueuedMessage(
        id=found["MessageId"],
        receipt=found["ReceiptHandle"],
        body=found["Body"],
        receives=int(attributes["ApproximateReceiveCount"]),
        sent_at=_moment(attributes["SentTimestamp"]),
        first_received_at=_moment(attributes["ApproximateFirstReceiveTimestamp"]),
    )


def _moment(millis: str) -> datetime:
    return datetime.fromtimestamp(int(millis) / 1000, UTC)


# Things to be done later, by the machine's clock.


class Timers:
    """One thread that does short things when their time comes; what is due after `close` is not done."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def after(self, delay: timedelta, do: Callable[[], None]) -> None:
        """Run the action after this time."""
        with self._changed:
            heapq.heappush(self._entries, (time.monotonic() + delay.total_seconds(), next(self._numbers), do))
            self._changed.notify()

    def every(self, period: timedelta, do: Callable[[], None], *, first: timedelta | None = None) -> None:
        """Run the action periodically, first after one period by default."""

        def again() -> None:
            self.after(period, again)
            do()

        self.after(period if first is None else first, again)

    def close(self) -> None:
        """Stop; returns when no action runs any more."""
        with self._changed:
            self._is_open = False
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._is_open and (not self._entries or self._entries[0][0] > time.monotonic()):
                    wait = self._entries[0][0] - time.monotonic() if self._entries else None
                    self._changed.wait(wait)
                if not self._is_open:
                    return
                _, _, do = heapq.heappop(self._entries)
            do()


# EventBridge Scheduler, which moto keeps but never fires: the schedules that the functions make for budget windows.


POLL_INTERVAL: Final = timedelta(seconds=5)

Fire = Callable[[str, str, dict[str, Any]], None]


class Windows:
    """Fires each enabled schedule of the account at its times: `fire(name, target ARN, input)`."""

    def __init__(self, scheduler: Any, timers: Timers, fire: Fire) -> None:
        self._scheduler = scheduler
        self._timers = timers
        self._fire = fire
        self._known: dict[tuple[str, str], str] = {}
        self._polling = threading.Lock()

    def start(self) -> None:
        """Start following the schedules that the functions create."""
        self._timers.every(POLL_INTERVAL, self.poll)

    def poll(self) -> None:
        """Read new, changed and deleted schedules. After an error of the service the next poll catches up."""
        with self._polling:
            try:
                found = self._schedules()
            except (ClientError, BotoCoreError):
                return
            for key, expression in found.items():
                if self._known.get(key) != expression:
                    self._await(key, expression)
            self._known = found

    def _schedules(self) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for page in self._scheduler.get_paginator("list_schedules").paginate():
            for entry in page["Schedules"]:
                whole = self._schedule(entry["GroupName"], entry["Name"])
                if whole is not None and whole.get("State", "ENABLED") == "ENABLED":
                    found[entry["GroupName"], entry["Name"]] = whole["ScheduleExpression"]
        return found

    def _schedule(self, group: str, name: str) -> dict[str, Any] | None:
        """One schedule; None where it was deleted since it was listed, as the functions do when a NodePool goes."""
        try:
            found: dict[str, Any] = self._scheduler.get_schedule(GroupName=group, Name=name)
        except self._scheduler.exceptions.ResourceNotFoundException:
            return None
        return found

    def _await(self, key: tuple[str, str], expression: str) -> None:
        now = datetime.now(UTC)
        due = next_fire(expression, now)
        if due is not None:
            self._timers.after(due - now, lambda: self._due(key, expression))

    def _due(self, key: tuple[str, str], expression: str) -> None:
        if self._known.get(key) != expression:
            return
        self._await(key, expression)
        whole = self._schedule(*key)
        if whole is not None:
            target = whole["Target"]
            self._fire(key[1], target["Arn"], json.loads(target.get("Input") or "{}"))
