"""Wakes the functions by the wiring, in real time: queues, schedules, rules, budget windows, the audit log."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import msgspec

from installation import wiring
from installation.wiring import FunctionSpec
from simulator.events import bus_event, matches, scheduled_event
from tests.e2e.cloud.aws_protocol import SignedRequest
from tests.e2e.functions.account import Functions
from tests.e2e.functions.event_source import EventSource, Timers, Windows
from tests.e2e.functions.sandbox import OK, Invocation

RETRY_DELAYS: Final = (timedelta(minutes=1), timedelta(minutes=2))
"""Lambda's own two retries of an asynchronous invocation that failed."""

PAUSE_SECONDS: Final = 600.0
"""How long running invocations may take to end: twice the longest time-out of a function."""

WORKERS: Final = 24
"""Threads that wait for invocations; how many run is the functions' own bound."""


@dataclass(frozen=True)
class Pace:
    """How time is bent for a test; by default not at all.

    Attributes:
        periods: Other periods for schedules, by name.
        first: A schedule's first turn, as a share of its period.
        retries: Other delays of retries.
        batches: So many of a queue are at work at once, at most; Lambda begins with five, and goes on to 1,000.
        slack: Factor of the deployed time-outs, for a busy machine.
    """

    periods: Mapping[str, timedelta] = field(default_factory=dict)
    first: float = 1.0
    retries: tuple[timedelta, ...] = RETRY_DELAYS
    batches: int = 1000
    slack: int = 1


class Pump:
    """Everything that wakes functions, over clients of SQS and EventBridge Scheduler, with the queues' URLs by name."""

    def __init__(
        self, functions: Functions, sqs: Any, scheduler: Any, queue_urls: Mapping[str, str], pace: Pace | None = None
    ) -> None:
        self._functions = functions
        self._pace = pace or Pace()
        self._timers = Timers()
        self._workers = ThreadPoolExecutor(WORKERS, thread_name_prefix="pump")
        self._windows = Windows(scheduler, self._timers, self._window)
        self._goes = True
        specs = {queue.name: queue for queue in wiring.QUEUES}
        self._sources = [
            EventSource(sqs, queue_urls[spec.queue], specs[spec.queue], spec, functions, at_once=self._pace.batches)
            for spec in wiring.FUNCTIONS
            if spec.queue
        ]

    def start(self, *, schedules: Iterable[str] | None = None) -> None:
        """Begin: event sources, budget windows, and the schedules of the wiring (all of them, or those named)."""
        for source in self._sources:
            source.start(self._workers)
        self._windows.start()
        for spec in wiring.FUNCTIONS:
            for schedule in spec.schedules:
                if schedules is None or schedule.name in schedules:
                    self._follow(spec, schedule.name, self._pace.periods.get(schedule.name, schedule.every))

    def pause(self, seconds: float = PAUSE_SECONDS) -> None:
        """Start no invocations until `resume`, and wait for the running ones.

        Raises:
            TimeoutError: If an invocation still runs after this many seconds.
        """
        self._goes = False
        for source in self._sources:
            source.pause()
        if not self._functions.wait_until_idle(seconds):
            raise TimeoutError(f"functions still run after {seconds:g} s")

    def resume(self) -> None:
        """Resume the schedules; times that passed in between are skipped."""
        self._goes = True
        for source in self._sources:
            source.resume()

    def close(self) -> None:
        """Start no more invocations, and end the running ones, whose results are not needed."""
        self._goes = False
        for source in self._sources:
            source.close()
        self._timers.close()
        self._functions.close()
        self._workers.shutdown(wait=True, cancel_futures=True)

    def wake(self, name: str) -> Invocation:
        """What the first schedule of this function would do, now, and wait for it."""
        spec = wiring.BY_NAME[name]
        return self._functions.invoke(spec, _scheduled(spec.schedules[0].name), "test")

    def sent(self, request: SignedRequest) -> None:
        """Messages were sent (`sqs:SendMessageBatch`): their queue is looked at when each can be had."""
        body = msgspec.json.decode(request.body)
        for source in self._sources:
            if source.url == body["QueueUrl"]:
                for seconds in sorted({int(entry.get("DelaySeconds") or 0) for entry in body["Entries"]}):
                    self._timers.after(timedelta(seconds=seconds), source.poll)

    def put_event(self, source: str, detail_type: str, detail: dict[str, Any]) -> list[Future[None]]:
        """An event on the account's default bus, to every function that has a rule for it."""
        event = bus_event(source, detail_type, detail, str(uuid.uuid4()), datetime.now(UTC))
        return [
            self.send(spec, event, f"rule:{rule.name}")
            for spec in wiring.FUNCTIONS
            for rule in spec.rules
            if matches(rule.pattern, event)
        ]

    def send(self, spec: FunctionSpec, event: Mapping[str, Any], trigger: str, *, attempt: int = 0) -> Future[None]:
        """Invoke a function asynchronously: it waits while as many run as may, and is tried again when it fails."""
        return self._workers.submit(self._attempt, spec, event, trigger, attempt)

    def _attempt(self, spec: FunctionSpec, event: Mapping[str, Any], trigger: str, attempt: int) -> None:
        if not self._goes:
            return
        invocation = self._functions.invoke(spec, event, trigger)
        if invocation.outcome != OK and attempt < len(self._pace.retries):
            self._timers.after(self._pace.retries[attempt], lambda: self._again(spec, event, trigger, attempt + 1))

    def _again(self, spec: FunctionSpec, event: Mapping[str, Any], trigger: str, attempt: int) -> None:
        if self._goes:
            self.send(spec, event, trigger, attempt=attempt)

    def _follow(self, spec: FunctionSpec, schedule: str, every: timedelta) -> None:
        def fire() -> None:
            if self._goes:
                self.send(spec, _scheduled(schedule), f"schedule:{schedule}")

        self._timers.every(every, fire, first=every * self._pace.first)

    def _window(self, name: str, _target: str, payload: dict[str, Any]) -> None:
        for spec in wiring.FUNCTIONS:
            if spec.windows and self._goes:
                self.send(spec, payload, f"window:{name}")


def _scheduled(rule: str) -> dict[str, Any]:
    return scheduled_event(rule, str(uuid.uuid4()), datetime.now(UTC))
