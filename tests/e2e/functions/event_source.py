"""Lambda's event source mapping of a queue, over SQS' real interface: batches, the window, partial failures, redelivery."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from installation.wiring import FunctionSpec, QueueSpec
from simulator.events import QueuedMessage, queue_event
from tests.e2e.functions.account import Functions
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
    """Carries one queue's messages to its function until it is closed, `at_once` batches at most. `url` is the queue's."""

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
        return [_message(found) for found in answer.get("Messages", ())]

    def _deliver(self, batch: list[QueuedMessage]) -> None:
        try:
            event = queue_event(self._queue.name, batch)
            invocation = self._functions.invoke(self._function, event, f"queue:{self._queue.name}")
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
