"""Summarizes a run: the SimulationSummary of the command line's contract."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from math import ceil
from typing import Any, Final

from simulator.checkers import Verdict
from simulator.outcome.cost_meter import CostMeter
from simulator.record import Event

VIOLATIONS: Final = (
    "budgetViolations",
    "podDisruptionBudgetViolations",
    "doNotDisruptViolations",
    "doubleLaunches",
    "orphanedInstances",
    "limitViolations",
)
_PERCENTILES: Final = (("p50", 50), ("p99", 99), ("max", 100))


class RunSummary:
    """Counts the record's events. Pods of DaemonSets are left out."""

    def __init__(self) -> None:
        self._created: dict[str, datetime] = {}
        self._pods = 0
        self._waits: list[float] = []
        self._launched = 0
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
            self._launched += 1
        elif event.event == "instanceTerminated":
            self._terminated += 1
        elif event.event == "invocation":
            self._invocations[fields["function"]] = self._invocations.get(fields["function"], 0) + 1

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
    "decisions",
)


def _nearest_rank(values: Sequence[float], share: int) -> float:
    if not values:
        return 0.0
    return round(sorted(values)[max(0, ceil(share * len(values) / 100) - 1)], 3)
