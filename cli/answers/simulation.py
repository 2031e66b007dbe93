"""Answers of `simulate`: what happened in each interval, and a plan of one namespace."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, Protocol

import msgspec

from cli.errors import InputError
from cli.terminal import output
from core.api.objects import JsonObject
from core.model.plan import Cost, DisruptionPlan, Plan
from core.model.snapshot import Snapshot

# Narrows an answer to the pods of one namespace (`--namespace`). What is decided stays: pods of all namespaces share nodes.


_NAMED_MAX: Final = 5
"""The most namespaces that an error names."""


class OneNamespace:
    """The pods of one namespace and the nodes on which they run."""

    def __init__(self, snapshot: Snapshot, name: str) -> None:
        """Find the pods. Raises InputError if there is none: an empty answer would hide a misspelt name."""
        pods = [pod for pod in snapshot.pods if pod.namespace == name]
        if not pods:
            raise InputError(f"no pod is in the namespace {name!r}", hint=_others(snapshot, name))
        self.name = name
        self._pods = {pod.key for pod in pods}
        self._nodes = {pod.node_name for pod in pods if pod.node_name}

    def plan(self, plan: Plan) -> Plan:
        """Return the nodes to launch that get its pods, and the fate of its pods; the cost is that of these nodes."""
        claims = tuple(claim for claim in plan.claims if not self._pods.isdisjoint(claim.pods))
        return msgspec.structs.replace(
            plan,
            claims=claims,
            bindings=tuple(binding for binding in plan.bindings if binding.pod in self._pods),
            unschedulable=tuple(unplaced for unplaced in plan.unschedulable if unplaced.pod in self._pods),
            groups=tuple(group for group in plan.groups if group.name.startswith(f"{self.name}/")),
            buffers=tuple(room for room in plan.buffers if room.buffer.startswith(f"{self.name}/")),
            cost=plan.cost if claims == plan.claims else Cost(sum(claim.price for claim in claims)),
        )

    def disruption(self, plan: DisruptionPlan) -> DisruptionPlan:
        """Return the commands that end nodes with its pods or move them, and why its other nodes stay.

        The cost before is the whole cluster's, the one after that with these commands alone.
        """
        commands = tuple(
            command
            for command in plan.commands
            if not self._nodes.isdisjoint(command.nodes) or any(move.pod in self._pods for move in command.moves)
        )
        after = plan.cost.before - sum(command.savings for command in commands)
        return msgspec.structs.replace(
            plan,
            commands=commands,
            blocked=tuple(block for block in plan.blocked if block.node in self._nodes),
            cost=plan.cost if commands == plan.commands else msgspec.structs.replace(plan.cost, after=after),
        )

    def status(self, document: JsonObject) -> JsonObject:
        """Return the status with its pending pods and its nodes alone; NodePools, commands and costs stay the cluster's."""
        return document | {
            "pendingPods": [pod for pod in document["pendingPods"] if pod in self._pods],
            "claims": [claim for claim in document["claims"] if claim["node"] in self._nodes],
        }


def _others(snapshot: Snapshot, name: str) -> str:
    namespaces = sorted({pod.namespace for pod in snapshot.pods})
    if near := difflib.get_close_matches(name, namespaces):
        return f"did you mean {near[0]!r}?"
    more = f" and {len(namespaces) - _NAMED_MAX} more" if len(namespaces) > _NAMED_MAX else ""
    return (
        f"namespaces with pods: {', '.join(namespaces[:_NAMED_MAX])}{more}" if namespaces else "there is no pod at all"
    )


# Formats the summary of `simulate` as a table in words.


def simulation_table(summary: JsonObject) -> str:
    """Return one line for each figure, in the order of the summary."""
    rows = [
        (name, text(summary[field]))
        for field, (name, text) in FIGURES.items()
        if field not in _MEASURED or summary.get(field)
    ]
    return output.table(("SUMMARY", ""), rows)


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _seconds(seconds: float) -> str:
    return f"{round(seconds, 1):g} s"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}"


def _counts(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _waits(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{_PERCENTILES[name]} {_seconds(percentile)}" for name, percentile in seconds.items())


_PERCENTILES: Final = {"p50": "median", "p99": "99th percentile", "max": "longest"}

FIGURES: Final[Mapping[str, tuple[str, Callable[[Any], str]]]] = {
    "scenario": ("scenario", str),
    "virtualSeconds": ("simulated time", _span),
    "wallSeconds": ("computing time", _seconds),
    "podsCreated": ("pods created", str),
    "podsScheduled": ("pods scheduled", str),
    "podsPending": ("pods pending at the end", str),
    "podsUnschedulable": ("pods unschedulable at the end", _counts),
    "pendingSeconds": ("time pending", _waits),
    "nodesLaunched": ("nodes launched", str),
    "nodesTerminated": ("nodes terminated", str),
    "nodesAtEnd": ("nodes at the end", str),
    "instanceHours": ("instance hours", str),
    "dollars": ("cost", _dollars),
    "evictions": ("evictions", str),
    "budgetViolations": ("violated disruption budgets", str),
    "podDisruptionBudgetViolations": ("violated PodDisruptionBudgets", str),
    "doNotDisruptViolations": ("violated do-not-disrupt", str),
    "doubleLaunches": ("double launches", str),
    "orphanedInstances": ("orphaned instances", str),
    "limitViolations": ("violated NodePool limits", str),
    "bindingViolations": ("bindings against the scheduler's rules", str),
    "evictionRateViolations": ("violated eviction rates", str),
    "podsKilledWithInstance": ("pods killed with their instance", str),
    "evictionsWithoutPlace": ("evicted pods without a place", str),
    "commandsWithoutDecision": ("commands without a decision", str),
    "invocations": ("invocations", _counts),
    "cpuSeconds": ("processor seconds", _counts),
    "peakMemoryMiB": ("peak memory, MiB", _counts),
    "decisions": ("decisions", str),
}
"""Field of the summary → its label, and its formatter for people."""


_MEASURED: Final = ("cpuSeconds", "peakMemoryMiB")
"""Figures that only scenarios with a counting clock have."""


LINES_MAX: Final = 48
_INTERVALS: Final = tuple(timedelta(minutes=minutes) for minutes in (1, 2, 5, 10, 15, 30, 60, 120, 240, 480, 1440))
_WORDS: Final[Mapping[str, tuple[str, str]]] = {
    "podCreated": ("pod created", "pods created"),
    "podBound": ("bound", "bound"),
    "podEvicted": ("evicted", "evicted"),
    "evictionRefused": ("eviction refused", "evictions refused"),
    "instanceLaunched": ("launched", "launched"),
    "launchRefused": ("launch refused", "launches refused"),
    "nodeReady": ("node ready", "nodes ready"),
    "interruptionNotice": ("interruption notice", "interruption notices"),
    "instanceTerminated": ("terminated", "terminated"),
    "fault": ("fault", "faults"),
}


class TimelineEvent(Protocol):
    """One event of the record."""

    @property
    def t(self) -> str:
        """Virtual time, RFC 3339."""
        ...

    @property
    def event(self) -> str:
        """The kind of event."""
        ...

    @property
    def fields(self) -> Mapping[str, Any]:
        """The object of the event, and details."""
        ...


def timeline(events: Sequence[TimelineEvent]) -> str:
    """Format at most `LINES_MAX` lines, or one a day; intervals without events are left out."""
    if not events:
        return "nothing happened"
    start, end = _moment(events[0]), _moment(events[-1])
    interval = next((s for s in _INTERVALS if (end - start) / s <= LINES_MAX), _INTERVALS[-1])
    fleet = _Fleet()
    rows: list[tuple[object, ...]] = []
    counts: dict[str, int] = {}
    line = 0
    for event in events:
        number = int((_moment(event) - start) / interval)
        if number != line:
            rows += _row(start + interval * line, counts, fleet)
            counts, line = {}, number
        fleet.see(event)
        if event.event in _WORDS:
            counts[event.event] = counts.get(event.event, 0) + 1
    rows += _row(start + interval * line, counts, fleet)
    return (
        output.table(("FROM", "MOST PENDING", "INSTANCES", "$/H", "WHAT HAPPENED"), rows)
        if rows
        else "nothing happened"
    )


class _Fleet:
    """Pending pods, their maximum in this interval, instances and their prices."""

    def __init__(self) -> None:
        self.pending: set[str] = set()
        self.most_pending = 0
        self.prices: dict[str, float] = {}

    def see(self, event: TimelineEvent) -> None:
        fields = event.fields
        if event.event == "podCreated":
            self.pending.add(fields["pod"])
            self.most_pending = max(self.most_pending, len(self.pending))
        elif event.event in ("podBound", "podDeleted", "podFinished"):
            self.pending.discard(fields["pod"])
        elif event.event == "instanceLaunched":
            self.prices[fields["instance"]] = fields["price"]
        elif event.event == "instanceTerminated":
            self.prices.pop(fields["instance"], None)


def _row(at: datetime, counts: Mapping[str, int], fleet: _Fleet) -> Iterable[tuple[object, ...]]:
    if not counts:
        return
    happened = ", ".join(
        f"{counts[event]} {words[counts[event] != 1]}" for event, words in _WORDS.items() if event in counts
    )
    hourly = sum(fleet.prices.values(), 0.0)
    most, fleet.most_pending = fleet.most_pending, len(fleet.pending)
    yield (f"{at:%m-%d %H:%M}", most, len(fleet.prices), hourly, happened)


def _moment(event: TimelineEvent) -> datetime:
    return datetime.fromisoformat(event.t)
