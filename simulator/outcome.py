"""What a run did and cost: the SimulationSummary, the decision log, the cost, the ledger."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any, Final

import msgspec

from core.ledger.reading import PREFIX
from core.model.values.quantity import NANODOLLARS
from installation.wiring import TABLE
from simulator.aws.ec2.instances import STRANGER, Instance
from simulator.aws.installation import CLUSTER, Exchange
from simulator.aws.queues import AwsError
from simulator.checkers.pods import Verdict
from simulator.clock import VirtualClock
from simulator.invocation.faults import Call
from simulator.record import Event

# Meters the instances' cost: hours, and dollars at the prices of each moment.


_MICROSECOND: Final = timedelta(microseconds=1)
_HOUR: Final = timedelta(hours=1)


class CostMeter:
    """Adds up the cost of instances from launch to end. Time is charged at present prices: settle before they change."""

    def __init__(self, clock: VirtualClock, exchange: Exchange) -> None:
        self._clock = clock
        self._exchange = exchange
        self._running: dict[str, tuple[Instance, datetime]] = {}
        self._time = timedelta(0)
        self._cost = 0

    def started(self, instance: Instance) -> None:
        """Start metering an instance."""
        self._running[instance.id] = (instance, self._clock.now())

    def ended(self, instance: Instance) -> None:
        """Stop metering an instance."""
        self._charge(*self._running.pop(instance.id))

    def settle(self) -> None:
        """Charge running instances up to now."""
        for key, (instance, since) in self._running.items():
            self._charge(instance, since)
            self._running[key] = (instance, self._clock.now())

    @property
    def instance_hours(self) -> float:
        """Hours of all instances together, up to the last settlement."""
        return self._time / _HOUR

    @property
    def dollars(self) -> float:
        """The cost in dollars up to the last settlement."""
        return self._cost / (NANODOLLARS * (_HOUR // _MICROSECOND))

    def _charge(self, instance: Instance, since: datetime) -> None:
        span = self._clock.now() - since
        self._time += span
        self._cost += (self._exchange.price(instance.pool) or instance.price) * (span // _MICROSECOND)


# Logs the functions' decisions without repeats.
#
# Each run reports again that a pod still has no place. The log contains that once, and again only after another decision about
# the same subject.


_NEW_CHAPTERS: Final = ("podBound", "podDeleted")
"""After one of these decisions, any decision about the pod counts as new."""


class DecisionLog:
    """Collects decisions: at, function, kind, subject, reason, message.

    Attributes:
        entries: The decisions, in order, without repeats.
    """

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._last: dict[str, tuple[str, str]] = {}
        self.entries: list[dict[str, Any]] = []

    def write(self, function: str, decision: Mapping[str, Any]) -> None:
        """Add a decision, unless the last one about its subject had the same kind and reason."""
        subject, outcome = decision["subject"], (decision["kind"], decision["reason"])
        if self._last.get(subject) != outcome:
            self._last[subject] = outcome
            self.entries.append({"at": self._clock.now(), "function": function, **decision})

    def see(self, event: Event) -> None:
        """Listen to the record."""
        if event.event in _NEW_CHAPTERS:
            self._last.pop(event.fields["pod"], None)


# The ledger that functions write to the bucket, as files in a folder of the same names.


class LedgerFolder:
    """Writes what arrives in the bucket."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def see(self, call: Call, answer: dict[str, Any] | AwsError) -> None:
        """Listen to the account's calls."""
        if call.name != "s3:PutObject" or isinstance(answer, AwsError):
            return
        key = str(call.parameters["Key"])
        if key.startswith(PREFIX):
            file = self._folder / key.removeprefix(PREFIX)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(call.parameters["Body"])


VIOLATIONS: Final = (
    "budgetViolations",
    "podDisruptionBudgetViolations",
    "doNotDisruptViolations",
    "doubleLaunches",
    "orphanedInstances",
    "limitViolations",
    "bindingViolations",
    "evictionRateViolations",
    "podsKilledWithInstance",
    "evictionsWithoutPlace",
    "commandsWithoutDecision",
)
"""All laws of the judges of one run: any of them, broken once, ends `simulate` with 1."""
_PERCENTILES: Final = (("p50", 50), ("p99", 99), ("max", 100))


class RunSummary:
    """Counts the record's events. Pods of DaemonSets are left out."""

    def __init__(self) -> None:
        self._created: dict[str, datetime] = {}
        self._pods = 0
        self._waits: list[float] = []
        self._launched = 0
        self._foreign: set[str] = set()
        self._terminated = 0
        self._evictions = 0
        self._invocations: dict[str, int] = {}

    def see(self, event: Event) -> None:
        """Count one event."""
        fields = event.fields
        if event.event == "podCreated":
            self._pod_created(fields, event.t)
        elif event.event == "podBound" and fields["pod"] in self._created:
            created = self._created.pop(fields["pod"])
            self._waits.append((datetime.fromisoformat(event.t) - created).total_seconds())
        elif event.event in ("podDeleted", "podFinished"):
            self._created.pop(fields["pod"], None)
        elif event.event == "podEvicted":
            self._evictions += fields["by"] in ("eviction", "forced")
        elif event.event == "instanceLaunched":
            self._see_launch(fields)
        elif event.event == "instanceTerminated":
            self._terminated += fields["instance"] not in self._foreign
        elif event.event == "invocation":
            self._invocations[fields["function"]] = self._invocations.get(fields["function"], 0) + 1

    def _see_launch(self, fields: Mapping[str, Any]) -> None:
        if fields.get("by") == STRANGER:
            self._foreign.add(fields["instance"])
        else:
            self._launched += 1

    def pending(self) -> tuple[str, ...]:
        """Return the pods that are pending now."""
        return tuple(self._created)

    def figures(self, unschedulable: Mapping[str, int]) -> dict[str, Any]:
        """The counts by their names in the summary."""
        return {
            "podsCreated": self._pods,
            "podsScheduled": len(self._waits),
            "podsPending": len(self._created),
            "podsUnschedulable": dict(sorted(unschedulable.items())),
            "pendingSeconds": {name: _nearest_rank(self._waits, share) for name, share in _PERCENTILES},
            "nodesLaunched": self._launched,
            "nodesTerminated": self._terminated,
            "nodesAtEnd": self._launched - self._terminated,
            "evictions": self._evictions,
            "invocations": dict(sorted(self._invocations.items())),
        }

    def _pod_created(self, fields: Mapping[str, Any], moment: str) -> None:
        if not fields["owner"].startswith("DaemonSet/"):
            self._pods += 1
            self._created[fields["pod"]] = datetime.fromisoformat(moment)


def unschedulable_by_reason(pending: Iterable[str], decisions: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """How many of the pending pods the last plan gave up on, by reason code."""
    last: dict[str, str] = {}
    for decision in decisions:
        if decision["kind"] == "unschedulable":
            last[decision["subject"]] = decision["reason"]
        elif decision["kind"] == "bind":
            last.pop(decision["subject"], None)
    counts: dict[str, int] = {}
    for pod in pending:
        if pod in last:
            counts[last[pod]] = counts.get(last[pod], 0) + 1
    return counts


def summarize(name: str, virtual_seconds: int, wall_seconds: float, figures: Mapping[str, Any]) -> dict[str, Any]:
    """The summary, in the contract's order of fields; `figures` holds all the others."""
    return {
        "apiVersion": "fleetwright.dev/v1",
        "kind": "SimulationSummary",
        "scenario": name,
        "virtualSeconds": virtual_seconds,
        "wallSeconds": round(wall_seconds, 1),
        **{key: figures[key] for key in _ORDER},
    }


def costs(meter: CostMeter) -> dict[str, float]:
    """Hours and dollars, settled before."""
    return {"instanceHours": round(meter.instance_hours, 2), "dollars": round(meter.dollars, 2)}


def judged(verdict: Verdict) -> dict[str, int]:
    """How often each law was broken."""
    return {law: verdict.count(law) for law in VIOLATIONS}


_ORDER: Final = (
    "podsCreated",
    "podsScheduled",
    "podsPending",
    "podsUnschedulable",
    "pendingSeconds",
    "nodesLaunched",
    "nodesTerminated",
    "nodesAtEnd",
    "instanceHours",
    "dollars",
    "evictions",
    *VIOLATIONS,
    "invocations",
    "cpuSeconds",
    "peakMemoryMiB",
    "decisions",
)


def _nearest_rank(values: Sequence[float], share: int) -> float:
    if not values:
        return 0.0
    return round(sorted(values)[max(0, ceil(share * len(values) / 100) - 1)], 3)


# The functions' rows in the table, as plain JSON for the judges.


Item = dict[str, Any]

CLAIMS = "claims"
COMMANDS = "commands"


def kind_of(item: Item) -> str:
    """Return the kind of an item, or of one with this key, such as `claims`. A kind may lie in several partitions."""
    return kind_of_partition(item.get(TABLE.partition_key, {}).get("S", ""))


def kind_of_partition(partition: str) -> str:
    """The same by the partition alone."""
    return partition.removeprefix(f"{CLUSTER}#").partition("#")[0]


def record_of(item: Item) -> Item:
    """The record in an item that has one."""
    body = item["body"]
    text = body["S"].encode() if "S" in body else zlib.decompress(bytes(body["B"]))
    record: Item = msgspec.json.decode(text)
    return record
