"""The suite's pump reads a queue when it has messages, not all the time."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any

import pytest

from installation.wiring import BY_NAME, WORK, FunctionSpec
from tests.e2e.functions import event_source
from tests.e2e.functions.event_source import EventSource
from tests.e2e.functions.timers import Timers

SECONDS = 30.0


class Queue:
    """A queue as a source sees it: counts the reads, and returns its messages."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.looks = 0

    def receive_message(self, **_: Any) -> dict[str, Any]:
        self.looks += 1
        given, self.messages = self.messages, []
        return {"Messages": given}

    def delete_message_batch(self, **_: Any) -> None:
        pass


class Heard:
    """The functions: record each invocation."""

    def __init__(self) -> None:
        self.invoked = Event()

    def invoke(self, spec: FunctionSpec, event: dict[str, Any], trigger: str) -> Any:
        self.invoked.set()
        raise RuntimeError("enough")


def message() -> dict[str, Any]:
    moments = {"SentTimestamp": "1000", "ApproximateFirstReceiveTimestamp": "1000", "ApproximateReceiveCount": "1"}
    return {"MessageId": "1", "ReceiptHandle": "1", "Body": "{}", "Attributes": moments}


def test_a_notified_source_reads_before_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise, each step of a claim waits for the next poll; and polling an empty queue costs as much as a full one."""
    monkeypatch.setattr(event_source, "EMPTY_SECONDS", 10 * SECONDS)
    queue, heard = Queue(), Heard()
    source = EventSource(queue, "url", WORK, BY_NAME["execute"], heard, at_once=5)  # type: ignore[arg-type]
    with ThreadPoolExecutor(1) as workers:
        source.start(workers)
        while not queue.looks:
            time.sleep(0.01)
        queue.messages.append(message())
        source.poll()
        assert heard.invoked.wait(SECONDS)
        source.close()


def test_a_schedule_may_begin_in_the_middle_of_its_period() -> None:
    """Otherwise, the suite waits a minute for its first poll."""
    timers, fired = Timers(), Event()
    timers.every(timedelta(hours=1), fired.set, first=timedelta(0))
    assert fired.wait(SECONDS)
    timers.close()
