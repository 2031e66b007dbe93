"""Formats the summary of `simulate` as a table in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from cli.terminal import output
from core.api.objects import JsonObject


def simulation_table(summary: JsonObject) -> str:
    """Return one line for each figure, in the order of the summary."""
    rows = [(name, text(summary[field])) for field, (name, text) in FIGURES.items()]
    return output.table(("SUMMARY", ""), rows)


def _span(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _seconds(seconds: float) -> str:
    return f"{round(seconds, 1):g} s"


def _dollars(amount: float) -> str:
    return f"${amount:,.2f}"


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "none"


def _waits(seconds: Mapping[str, float]) -> str:
    return ", ".join(f"{_PERCENTILES[name]} {_seconds(found)}" for name, found in seconds.items())


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
    "invocations": ("invocations", _counts),
    "decisions": ("decisions", str),
}
"""Field of the summary → its label, and its formatter for people."""
