"""Invokes the functions as the deployed wiring does: by schedules, queues, rules, the audit log and budget windows.

`installation.wiring` alone determines the routes, so the simulated and the deployed system cannot differ in them.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from core.api.objects import JsonObject
from installation import wiring
from installation.wiring import FunctionSpec, QueueSpec
from simulator.aws.queues import Lineage, Message, Queues
from simulator.clock import VirtualClock
from simulator.invocation.faults import MessageFaults
from simulator.invocation.sandbox import OK, Sandboxes
from simulator.record import Recorder

# EventBridge's event patterns, as far as rules here use them: exact values, prefix, anything-but, exists.


def matches(pattern: Mapping[str, Any], event: Mapping[str, Any]) -> bool:
    """Whether the event has, for every key of the pattern, one of the values listed there."""
    return all(_field_matches(wanted, event.get(key), key in event) for key, wanted in pattern.items())


def _field_matches(wanted: Mapping[str, Any] | Sequence[Any], actual: Any, is_there: bool) -> bool:
    if isinstance(wanted, Mapping):
        return isinstance(actual, Mapping) and matches(wanted, actual)
    values = actual if isinstance(actual, list) else [actual]
    return any(_value_matches(expected, value, is_there) for expected in wanted for value in values)


def _value_matches(wanted: Any, value: Any, is_there: bool) -> bool:
    if not isinstance(wanted, Mapping):
        return is_there and bool(wanted == value)
    if "exists" in wanted:
        return bool(is_there == wanted["exists"])
    if "prefix" in wanted:
        return isinstance(value, str) and value.startswith(wanted["prefix"])
    if "anything-but" in wanted:
        excluded = wanted["anything-but"]
        return is_there and value not in (excluded if isinstance(excluded, list) else [excluded])
    raise ValueError(f"no such operator in an event pattern: {sorted(wanted)}")


# Builds events in the form in which AWS delivers them, by source: EventBridge, SQS, CloudWatch Logs.
#
# The shapes are those of AWS' documentation.


ACCOUNT: Final = "123456789012"
REGION: Final = "us-east-1"
CONTROL_OWNER: Final = "CloudwatchLogs"


class QueuedMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message as it was received from a queue; times are UTC."""

    id: str
    receipt: str
    body: str
    receives: int
    sent_at: datetime
    first_received_at: datetime


def bus_event(source: str, detail_type: str, detail: JsonObject, event_id: str, now: datetime) -> JsonObject:
    """An event on the account's default bus."""
    return _event(source, detail_type, detail, event_id, now, _resources(detail))


def scheduled_event(name: str, event_id: str, now: datetime) -> JsonObject:
    """Return the event of a schedule."""
    replaced = {
        "<aws.scheduler.execution-id>": event_id,
        "<aws.scheduler.scheduled-time>": f"{now:%Y-%m-%dT%H:%M:%SZ}",
        "<aws.scheduler.schedule-arn>": f"arn:aws:scheduler:{REGION}:{ACCOUNT}:schedule/default/{name}",
    }
    text = msgspec.json.encode(wiring.SCHEDULED_EVENT).decode()
    for word, value in replaced.items():
        text = text.replace(word, value)
    event: JsonObject = msgspec.json.decode(text)
    return event


def queue_event(queue: str, messages: Sequence[QueuedMessage]) -> JsonObject:
    """A batch of an SQS event source mapping."""
    return {"Records": [_record(queue, message) for message in messages]}


def log_delivery(log_group: str, entries: Sequence[tuple[datetime, str]]) -> JsonObject:
    """A delivery of a CloudWatch Logs subscription: log lines with their times, packed as Lambda gets them."""
    lines = [
        {"id": f"{round(moment.timestamp() * 1000):036d}{number:020d}", "timestamp": _millis(moment), "message": text}
        for number, (moment, text) in enumerate(entries)
    ]
    stream = f"kube-apiserver-audit-{hashlib.md5(log_group.encode(), usedforsecurity=False).hexdigest()}"
    return _packed("DATA_MESSAGE", ACCOUNT, log_group, stream, ["audit-log"], lines)


def control_delivery(now: datetime) -> JsonObject:
    """Return the event that CloudWatch Logs sends now and then to check that its destination is reachable."""
    line = {"id": "", "timestamp": _millis(now), "message": "CWL CONTROL MESSAGE: Checking health of destination"}
    return _packed("CONTROL_MESSAGE", CONTROL_OWNER, "", "", [], [line])


def _event(
    source: str, detail_type: str, detail: JsonObject, event_id: str, now: datetime, resources: list[str]
) -> JsonObject:
    return {
        "version": "0",
        "id": event_id,
        "detail-type": detail_type,
        "source": source,
        "account": ACCOUNT,
        "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": resources,
        "detail": detail,
    }


def _resources(detail: Mapping[str, Any]) -> list[str]:
    """Return the event's resources: EC2 lists the instance's ARN, Health the affected entities."""
    if "instance-id" in detail:
        return [f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/{detail['instance-id']}"]
    return [entity["entityValue"] for entity in detail.get("affectedEntities") or ()]


def _record(queue: str, message: QueuedMessage) -> JsonObject:
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt,
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": str(message.receives),
            "SentTimestamp": str(_millis(message.sent_at)),
            "SenderId": f"AROAEXAMPLE:{queue}",
            "ApproximateFirstReceiveTimestamp": str(_millis(message.first_received_at)),
        },
        "messageAttributes": {},
        "md5OfBody": hashlib.md5(message.body.encode(), usedforsecurity=False).hexdigest(),
        "eventSource": "aws:sqs",
        "eventSourceARN": f"arn:aws:sqs:{REGION}:{ACCOUNT}:{queue}",
        "awsRegion": REGION,
    }


def _packed(
    kind: str, owner: str, log_group: str, stream: str, filters: list[str], lines: list[JsonObject]
) -> JsonObject:
    payload = {
        "messageType": kind,
        "owner": owner,
        "logGroup": log_group,
        "logStream": stream,
        "subscriptionFilters": filters,
        "logEvents": lines,
    }
    data = gzip.compress(json.dumps(payload).encode(), mtime=0)
    return {"awslogs": {"data": base64.b64encode(data).decode()}}


def _millis(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


# CloudWatch Logs' filter patterns for JSON: fields equal or unequal to a text, in which `*` matches anything, or absent.
#
# Tests are joined by && and ||, with brackets.


Test = Callable[[Mapping[str, Any]], bool]

_TOKEN: Final = re.compile(r'\s*(NOT EXISTS|\(|\)|&&|\|\||!=|=|\$(?:\.[A-Za-z0-9_-]+)+|"[^"]*")')

_ABSENT: Final = "NOT EXISTS"


def compile_filter(pattern: str) -> Test:
    """Return a predicate for log events.

    Raises:
        ValueError: If the pattern is not one of this form.
    """
    text = pattern.strip()
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError(f"a filter pattern for JSON stands in braces: {pattern!r}")
    parser = _Parser(_tokens(text[1:-1].strip()))
    test = parser.either()
    parser.expect("")
    return test


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [*tokens, ""]
        self._at = 0

    def either(self) -> Test:
        tests = [self._both()]
        while self._accept("||"):
            tests.append(self._both())
        return lambda event: any(test(event) for test in tests)

    def expect(self, token: str) -> None:
        if not self._accept(token):
            raise ValueError(f"{self._tokens[self._at]!r} where {token or 'the end'!r} should be")

    def _both(self) -> Test:
        tests = [self._one()]
        while self._accept("&&"):
            tests.append(self._one())
        return lambda event: all(test(event) for test in tests)

    def _one(self) -> Test:
        if self._accept("("):
            test = self.either()
            self.expect(")")
            return test
        path, operator = self._next(), self._next()
        if path.startswith("$.") and operator == _ABSENT:
            absent = path[2:].split(".")
            return lambda event: _read(event, absent) is None
        literal = self._next()
        if not path.startswith("$.") or operator not in ("=", "!=") or not literal.startswith('"'):
            raise ValueError(f"{path} {operator} {literal} is not a comparison of a field with text")
        keys, equal = path[2:].split("."), operator == "="
        wanted = re.compile(".*".join(map(re.escape, literal.strip('"').split("*"))), re.DOTALL)
        return lambda event: _is_like(wanted, _read(event, keys)) == equal

    def _accept(self, token: str) -> bool:
        if self._tokens[self._at] != token:
            return False
        self._at += 1
        return True

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)
        return token


def _is_like(wanted: re.Pattern[str], value: Any) -> bool:
    return isinstance(value, str) and wanted.fullmatch(value) is not None


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"cannot read a filter pattern from {text[at:]!r}")
        tokens.append(match.group(1))
        at = match.end()
    return tokens


def _read(event: Any, keys: list[str]) -> Any:
    for key in keys:
        if not isinstance(event, Mapping):
            return None
        event = event.get(key)
    return event


# Carries messages from a queue to its function as Lambda's event source mapping does.


LINEAGE_MAX: Final = 16
"""The most invocations of one function in a chain, if it does not allow more: Lambda says "approximately 16"."""


def lineage_of(batch: Iterable[Lineage]) -> dict[str, int]:
    """Return the chain of an invocation for these messages: of each function the longest.

    AWS does not say how it joins them.
    """
    joined: dict[str, int] = {}
    for lineage in batch:
        for name, number in lineage.items():
            joined[name] = max(number, joined.get(name, 0))
    return joined


def is_dropped(function: FunctionSpec, lineage: Lineage) -> bool:
    """Whether Lambda does not invoke the function for messages of this chain."""
    return not function.may_loop and lineage.get(function.name, 0) >= LINEAGE_MAX


class Poller:
    """One queue and the function that consumes it: batches, the gathering window, partial failures, too long chains."""

    def __init__(
        self,
        clock: VirtualClock,
        sandboxes: Sandboxes,
        function: FunctionSpec,
        spec: QueueSpec,
        queues: Queues,
        ended: Callable[[FunctionSpec, dict[str, Any] | None], None],
        recorder: Recorder,
    ) -> None:
        self._recorder = recorder
        self._clock = clock
        self._sandboxes = sandboxes
        self._function = function
        self._spec = spec
        self._queues = queues
        self._queue = queues.get(spec.name)
        self._ended = ended
        self._due: datetime | None = None

    def schedule_delivery(self) -> None:
        """React to a possible change: compute when the next batch is due."""
        visible_at = self._queue.next_visible_at()
        if visible_at is None or not self._sandboxes.has_room(self._function):
            return
        due = max(visible_at, self._clock.now()) + self._spec.batch_window
        if self._due is None or due < self._due:
            self._due = due
            self._clock.at(due, lambda: self._deliver(due))

    def _deliver(self, due: datetime) -> None:
        if self._due != due:
            return
        self._due = None
        if not self._sandboxes.has_room(self._function):
            return
        spec = self._spec
        batch = self._queue.receive(self._clock.now(), spec.batch_size, spec.visibility, self._queues.order)
        if batch:
            event = queue_event(self._queue.name, [self._record(message) for message in batch])
            trigger, lineage = f"queue:{self._spec.name}", lineage_of(message.lineage for message in batch)
            if is_dropped(self._function, lineage):  # the messages come back when their visibility timeout ends
                self._recorder.emit("invocationDropped", function=self._function.name, messages=len(batch))
            else:
                self._sandboxes.invoke(self._function, event, trigger, lambda o, r: self._done(batch, o, r), lineage)
        self.schedule_delivery()

    def _done(self, batch: Sequence[Message], outcome: str, response: dict[str, Any] | None) -> None:
        if outcome == OK:
            failures = (response or {}).get("batchItemFailures") or []
            kept = {failure["itemIdentifier"] for failure in failures}
            self._queue.delete((message.id for message in batch if message.id not in kept), self._clock.now())
        self._ended(self._function, response)

    def _record(self, message: Message) -> QueuedMessage:
        return QueuedMessage(
            id=message.id,
            receipt=f"{message.id}#{message.receives}",
            body=message.body,
            receives=message.receives,
            sent_at=message.sent_at,
            first_received_at=self._clock.now(),
        )


AUDIT_LOG_DELAY: Final = timedelta(seconds=8)
"""From the API server to the function, unless a scenario says otherwise (`spec.aws.auditLogLag`)."""
AUDIT_LOG_GROUP: Final = "/aws/eks/simulated/cluster"
AUDIT_BATCH: Final = timedelta(seconds=1)
RULE_DELAY: Final = timedelta(milliseconds=500)
RETRY_DELAYS: Final = (timedelta(minutes=1), timedelta(minutes=2))
"""Lambda's own two retries of an asynchronous invocation that failed."""

OPENING: Final = ("refresh_catalogue", "reconcile")
"""The first runs of a new installation: planning needs a market and an observation of the NodePools."""

Decided = Callable[[str, dict[str, Any]], None]


class Pump:
    """Routes events to functions. `decided(function, decision)` is called for every decision in a handler's answer."""

    def __init__(
        self,
        clock: VirtualClock,
        sandboxes: Sandboxes,
        queues: Queues,
        message_faults: MessageFaults,
        decided: Decided,
        recorder: Recorder,
        functions: Sequence[FunctionSpec] = wiring.FUNCTIONS,
    ) -> None:
        self._functions = functions
        self._clock = clock
        self._sandboxes = sandboxes
        self._message_faults = message_faults
        self._decided = decided
        self._waiting: dict[str, list[tuple[dict[str, Any], str, int, Callable[[], None]]]] = {}
        self._audit: list[dict[str, Any]] = []
        self._audit_filter = compile_filter(wiring.AUDIT_LOG_FILTER)
        self._events = 0
        specs = {queue.name: queue for queue in wiring.QUEUES}
        self._pollers = {
            f.queue: Poller(clock, sandboxes, f, specs[f.queue], queues, self._ended, recorder)
            for f in functions
            if f.queue
        }
        queues.on_message(self._message_came)
        queues.trace(sandboxes.lineage)
        self._audit_lag: Callable[[], timedelta] = lambda: AUDIT_LOG_DELAY
        self._jitter: Callable[[], timedelta] = timedelta
        self._rule_lag: Callable[[], timedelta] = timedelta

    def delay(
        self,
        *,
        audit_log: Callable[[], timedelta],
        schedule: Callable[[], timedelta],
        rules: Callable[[], timedelta] = timedelta,
    ) -> None:
        """Ask these for the lag of each delivery of the audit log, and for how late each schedule and each event is."""
        self._audit_lag, self._jitter, self._rule_lag = audit_log, schedule, rules

    def start(self, slower: int = 1) -> None:
        """Start the installation: read the market, observe the objects once, then run the schedules, so many times rarer."""
        opening = [wiring.BY_NAME[name] for name in OPENING if wiring.BY_NAME[name] in self._functions]
        self._in_turn(opening)
        for function in self._functions:
            for schedule in function.schedules:
                self._await_schedule(function, schedule.name, slower * schedule.every)

    def invoke(self, function: FunctionSpec, event: dict[str, Any], trigger: str) -> None:
        """Invoke a function asynchronously: it waits while its concurrency is used up, and is retried if it fails."""
        self._invoke(function, event, trigger, 0)

    def task(
        self,
        function: FunctionSpec,
        event: dict[str, Any],
        done: Callable[[str, dict[str, Any] | None], None],
    ) -> bool:
        """Invoke a function synchronously, as Step Functions does; return whether its concurrency allowed it."""
        if not self._sandboxes.has_room(function):
            return False

        def ended(outcome: str, response: dict[str, Any] | None) -> None:
            self._ended(function, response)
            done(outcome, response)

        self._sandboxes.invoke(function, event, "states", ended)
        return True

    def put_event(self, source: str, detail_type: str, detail: dict[str, Any]) -> None:
        """An event on the account's default bus, to every function that has a rule for it."""
        event = bus_event(source, detail_type, detail, self._event_id(), self._clock.now())
        for function in self._functions:
            for rule in function.rules:
                if matches(rule.pattern, event):
                    self._carry(function, event, f"rule:{rule.name}", RULE_DELAY + self._rule_lag())

    def audit(self, event: dict[str, Any]) -> None:
        """An event of the cluster's audit log, to the function that is subscribed to it."""
        if not self._audit_filter(event):
            return
        if not self._audit:
            lag = self._audit_lag()
            gathered = min(lag, AUDIT_LOG_DELAY)
            self._clock.after(gathered + AUDIT_BATCH, lambda: self._close_audit(lag - gathered))
        self._audit.append(event)

    def window(self, name: str, _target: str, payload: dict[str, Any]) -> None:
        """Deliver the message of a schedule that follows a budget window."""
        for function in self._functions:
            if function.windows:
                self.invoke(function, payload, f"window:{name}")

    def _in_turn(self, functions: Sequence[FunctionSpec]) -> None:
        if functions:
            first, *others = functions
            event = scheduled_event("start", self._event_id(), self._clock.now())
            self._invoke(first, event, "start", 0, lambda: self._in_turn(others))

    def _message_came(self, queue: str) -> None:
        if queue in self._pollers:
            self._pollers[queue].schedule_delivery()

    def _await_schedule(self, function: FunctionSpec, name: str, every: timedelta) -> None:
        def fire() -> None:
            self._await_schedule(function, name, every)
            event = scheduled_event(name, self._event_id(), self._clock.now())
            late = self._jitter()
            if late:
                self._clock.after(late, lambda: self.invoke(function, event, f"schedule:{name}"))
            else:
                self.invoke(function, event, f"schedule:{name}")

        self._clock.after(every, fire)

    def _carry(
        self, function: FunctionSpec, event: dict[str, Any], trigger: str, delay: timedelta = RULE_DELAY
    ) -> None:
        def deliver() -> None:
            self._clock.after(delay, lambda: self.invoke(function, event, trigger))

        self._message_faults.carry(trigger, deliver)

    def _close_audit(self, still: timedelta) -> None:
        """Deliver what was gathered, after what is left of the lag."""
        entries, self._audit = self._audit, []
        if still:
            self._clock.after(still, lambda: self._deliver_audit(entries))
        else:
            self._deliver_audit(entries)

    def _deliver_audit(self, entries: Sequence[dict[str, Any]]) -> None:
        now = self._clock.now()
        event = log_delivery(AUDIT_LOG_GROUP, [(now, json.dumps(entry)) for entry in entries])
        for function in self._functions:
            if function.reads_audit_log:
                self._carry(function, event, "auditLog")

    def _invoke(
        self,
        function: FunctionSpec,
        event: dict[str, Any],
        trigger: str,
        attempt: int,
        then: Callable[[], None] = lambda: None,
    ) -> None:
        if not self._sandboxes.has_room(function):
            self._waiting.setdefault(function.name, []).append((event, trigger, attempt, then))
            return

        def done(outcome: str, response: dict[str, Any] | None) -> None:
            self._ended(function, response)
            if outcome != OK and attempt < len(RETRY_DELAYS):
                delay = RETRY_DELAYS[attempt]
                self._clock.after(delay, lambda: self._invoke(function, event, trigger, attempt + 1))
            then()

        self._sandboxes.invoke(function, event, trigger, done)

    def _room_came(self, function: FunctionSpec) -> None:
        waiting = self._waiting.get(function.name)
        if waiting and self._sandboxes.has_room(function):
            self._invoke(function, *waiting.pop(0))
        if function.queue:
            self._pollers[function.queue].schedule_delivery()

    def _ended(self, function: FunctionSpec, response: dict[str, Any] | None) -> None:
        for decision in (response or {}).get("decisions") or ():
            self._decided(function.name, decision)
        self._clock.after(timedelta(0), lambda: self._room_came(function))

    def _event_id(self) -> str:
        self._events += 1
        return f"00000000-0000-4000-9000-{self._events:012d}"
