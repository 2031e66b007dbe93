"""The suite's pump reads a queue when it has messages, not all the time."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Event
from typing import Any

import boto3
import msgspec
import pytest
from botocore.exceptions import EndpointConnectionError
from moto import mock_aws

from installation.wiring import BY_NAME, WORK, FunctionSpec
from tests.e2e.functions import event_source
from tests.e2e.functions.event_source import EventSource, Timers, Windows
from tests.e2e.functions.runtime_api import trace_header

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

    def invoke(self, spec: FunctionSpec, event: dict[str, Any], trigger: str, lineage: dict[str, int]) -> Any:
        self.lineage = lineage
        self.invoked.set()
        raise RuntimeError("enough")


def message(lineage: dict[str, int] | None = None) -> dict[str, Any]:
    attributes = {
        "SentTimestamp": "1000",
        "ApproximateFirstReceiveTimestamp": "1000",
        "ApproximateReceiveCount": "1",
        "AWSTraceHeader": trace_header(lineage or {}),
    }
    return {"MessageId": "1", "ReceiptHandle": "1", "Body": "{}", "Attributes": attributes}


@pytest.mark.parametrize(("may_loop", "hops", "is_invoked"), [(True, 40, True), (False, 15, True), (False, 16, False)])
def test_a_chain_is_cut_where_the_function_allows_none(may_loop: bool, hops: int, is_invoked: bool) -> None:
    """Lambda would cut it, so a function whose setting is forgotten must not work here."""
    queue, heard = Queue(), Heard()
    queue.messages.append(message({"execute": hops, "provision": 2}))
    function = msgspec.structs.replace(BY_NAME["execute"], may_loop=may_loop)
    source = EventSource(queue, "url", WORK, function, heard, at_once=5)  # type: ignore[arg-type]
    end = time.monotonic() + SECONDS
    with ThreadPoolExecutor(1) as workers:
        source.start(workers)
        while not (source.dropped or heard.invoked.is_set()) and time.monotonic() < end:
            time.sleep(0.01)
        source.close()
    assert (heard.invoked.is_set(), source.dropped) == (is_invoked, 0 if is_invoked else 1)
    if is_invoked:
        assert heard.lineage == {"execute": hops, "provision": 2}


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


# The suite's EventBridge Scheduler reads schedules while the functions make and delete them.


EVERY_MINUTE = "cron(* * * * ? *)"


class Later:
    """Timers whose time the test makes come."""

    def __init__(self) -> None:
        self.due: list[Any] = []

    def after(self, delay: timedelta, do: Any) -> None:
        self.due.append(do)

    def pass_time(self) -> None:
        due, self.due = self.due, []
        for do in due:
            do()


class Racing:
    """A scheduler in which something else happens right after each list."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self.exceptions = scheduler.exceptions
        self.get_schedule = scheduler.get_schedule
        self.then: Any = lambda: None

    def get_paginator(self, name: str) -> Any:
        pages = list(self._scheduler.get_paginator(name).paginate())
        self.then()
        return type("Pages", (), {"paginate": lambda _: iter(pages)})()


@pytest.fixture
def scheduler() -> Iterator[Any]:
    with mock_aws():
        yield boto3.client("scheduler", region_name="eu-west-1", aws_access_key_id="a", aws_secret_access_key="b")


def make(scheduler: Any, name: str) -> None:
    target = {
        "Arn": f"arn:aws:lambda:eu-west-1:123456789012:function:{name}",
        "RoleArn": "arn:aws:iam::123456789012:role/r",
    }
    scheduler.create_schedule(
        Name=name,
        ScheduleExpression=EVERY_MINUTE,
        FlexibleTimeWindow={"Mode": "OFF"},
        Target={**target, "Input": json.dumps({"window": name})},
    )


def test_a_schedule_that_is_deleted_after_it_was_listed_does_not_stop_the_others(scheduler: Any) -> None:
    """Without this, one deleted NodePool ends the thread of all timers, and no schedule of the suite fires any more."""
    for name in ("gone", "kept"):
        make(scheduler, name)
    racing, later, fired = Racing(scheduler), Later(), []
    racing.then = lambda: scheduler.delete_schedule(Name="gone")
    followed = Windows(racing, later, lambda name, _arn, payload: fired.append((name, payload)))  # type: ignore[arg-type]
    followed.poll()
    later.pass_time()
    assert fired == [("kept", {"window": "kept"})]


def test_a_schedule_that_is_deleted_before_its_time_does_not_fire(scheduler: Any) -> None:
    make(scheduler, "gone")
    later, fired = Later(), []
    followed = Windows(scheduler, later, lambda name, *_: fired.append(name))  # type: ignore[arg-type]
    followed.poll()
    scheduler.delete_schedule(Name="gone")
    later.pass_time()
    assert fired == []


def test_a_look_that_fails_forgets_nothing(scheduler: Any) -> None:
    make(scheduler, "kept")
    racing, later, fired = Racing(scheduler), Later(), []
    followed = Windows(racing, later, lambda name, *_: fired.append(name))  # type: ignore[arg-type]
    followed.poll()

    def fail() -> None:
        raise EndpointConnectionError(endpoint_url="the scheduler's")

    racing.then = fail
    followed.poll()
    later.pass_time()
    assert fired == ["kept"]
