"""The billed usage of the functions, counted while they run in the embedded world."""

from __future__ import annotations

import io
import json
import math
from collections import Counter, defaultdict
from datetime import datetime
from typing import Any, Final

import msgspec

from installation.wiring import BY_NAME
from simulator.aws.queues import AwsError
from simulator.invocation.faults import Call
from simulator.record import Event
from simulator.world import World

PROCESSOR_SECONDS_PER_OBJECT: Final = {"disrupt": 13.6e-5, "reconcile": 9.4e-5, "provision": 11.5e-5, "execute": 8.7e-5}
"""CPU seconds for each listed object, from `make scale` with 100,000 pods (docs/engineering/handbook/scale.md)."""

CONTINUED_MIN: Final = 10_000
"""Lists of so many objects are continued (`adapters.kube`, which only the composition may import)."""

CONTINUED_SHARE: Final = 0.5
"""The share of this that an object of a continued list costs: it is not decoded, but the snapshot is made of it."""

PACKED_BYTES: Final = 600
"""Bytes of an object as the API server sends it in a compressed page of pods of many kinds; events are not compressed."""

EVENT_BYTES: Final = 6_000

PROCESSOR_SECONDS_A_RUN: Final = 0.05
"""CPU seconds of a warm sandbox that lists nothing."""

WHOLE_PROCESSOR_MB: Final = 1769
READ_UNIT, WRITE_UNIT = 4096, 1024
"""Bytes of one unit of a strongly consistent read, and of a write."""

LOG_BYTES_A_RUN: Final = 900
"""Lambda's own start, end and report lines in JSON."""

LOG_BYTES_A_DECISION: Final = 450

_WRITES: Final = {"PutItem", "UpdateItem", "DeleteItem"}


class Usage:
    """Counts usage until it is read; what comes before `since` is the warm-up and does not count.

    Attributes:
        seconds: Gigabyte-seconds by function.
        counts: All other usage by its name in the bill.
        series: Metric → every reported value as (moment, value).
    """

    def __init__(self, world: World, since: datetime) -> None:
        self._world = world
        self._since = since
        self._read: Counter[str] = Counter()
        self.gigabyte_seconds: defaultdict[str, float] = defaultdict(float)
        self.counts: Counter[str] = Counter()
        self.series: defaultdict[str, list[tuple[datetime, float]]] = defaultdict(list)
        world.recorder.listen(self._event)
        world.account.wire.listen(self._call)
        api = world.cluster.api
        api.continued_min = CONTINUED_MIN  # the simulated API server continues shorter lists, too
        listed, continued = api.list, api.changes

        def listing(*arguments: Any, **more: Any) -> Any:
            answer = listed(*arguments, **more)
            self._read[world.sandboxes.running()] += len(answer.items)
            self._add("apiServerBytes", len(answer.items) * PACKED_BYTES)
            return answer

        def changes(*arguments: Any) -> Any:
            answer = continued(*arguments)
            if answer is not None:
                self._read[world.sandboxes.running()] += round((answer.objects or 0) * CONTINUED_SHARE)
                self._add("apiServerBytes", len(answer.events) * EVENT_BYTES)
            return answer

        api.list = listing  # type: ignore[method-assign]  # a gauge on the way
        api.changes = changes  # type: ignore[method-assign, assignment]

    @property
    def output(self) -> io.TextIOBase:
        """Receives the functions' standard output: metrics in CloudWatch's embedded format."""
        return _Output(self)

    def add_log_line(self, line: str) -> None:
        """One line of a function's output."""
        if '"CloudWatchMetrics"' not in line:
            return
        record, now = json.loads(line), self._world.clock.now()
        for directive in record["_aws"]["CloudWatchMetrics"]:
            for dimensions in directive["Dimensions"]:
                dimension = ",".join(f"{name}={record[name]}" for name in sorted(dimensions) if name != "service")
                for metric in directive["Metrics"]:
                    name = f"{metric['Name']}[{dimension}]" if dimension else metric["Name"]
                    values = record[metric["Name"]]
                    self.series[name] += [(now, value) for value in (values if isinstance(values, list) else [values])]
        self._add("logBytes", len(line))

    def metrics(self) -> int:
        """Return how many distinct metrics were written; each is priced per hour in which it is written."""
        return sum(1 for values in self.series.values() if values[-1][0] >= self._since)

    def _event(self, event: Event) -> None:
        if event.event != "invocation":
            return
        name = event.fields["function"]
        spec = BY_NAME[name]
        share = min(1.0, spec.memory_mb / WHOLE_PROCESSOR_MB)
        objects = self._read.pop(name, 0)
        busy = PROCESSOR_SECONDS_A_RUN + objects * PROCESSOR_SECONDS_PER_OBJECT.get(name, 0)
        seconds = event.fields["durationMillis"] / 1000 + busy / share
        if self._world.clock.now() >= self._since:
            self.gigabyte_seconds[name] += seconds * spec.memory_mb / 1024
        self._add("lambdaRequests", 1)
        self._add("logBytes", LOG_BYTES_A_RUN)

    def _call(self, call: Call, answer: dict[str, Any] | AwsError) -> None:
        if call.service == "dynamodb":
            self._add_table(call, {} if isinstance(answer, AwsError) else answer)
        elif call.service == "sqs":
            self._add("queueRequests", 1)
        elif call.service == "s3":
            self._add("bucketReads" if call.operation.startswith("Get") else "bucketWrites", 1)

    def _add_table(self, call: Call, answer: dict[str, Any]) -> None:
        if call.operation == "TransactWriteItems":
            self._add("writeUnits", sum(2 * _units(item, WRITE_UNIT) for item in call.parameters["TransactItems"]))
        elif call.operation in _WRITES:
            self._add("writeUnits", _units(call.parameters, WRITE_UNIT))
        else:
            self._add("readUnits", _units(answer, READ_UNIT))

    def _add(self, what: str, number: int) -> None:
        if self._world.clock.now() >= self._since:
            self.counts[what] += number


class _Output(io.TextIOBase):
    def __init__(self, usage: Usage) -> None:
        self._usage = usage
        self._begun = ""

    def write(self, text: str) -> int:
        """Receive a part of the output and count its complete lines."""
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            self._usage.add_log_line(line)
        return len(text)


def _units(content: object, size: int) -> int:
    return max(1, math.ceil(len(msgspec.json.encode(content, enc_hook=repr)) / size))
