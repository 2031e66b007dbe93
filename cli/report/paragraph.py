"""Writes the paragraph at the top of the page: what happened, what it cost, what remains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from cli.report.chains import consolidated
from cli.report.node_lifetimes import NodeLifetime
from cli.report.series import Series
from cli.terminal.output import counted
from simulator.outcome.summary import VIOLATIONS


def paragraph(summary: Mapping[str, Any], lines: Series, lives: Sequence[NodeLifetime]) -> str:
    """Return a few sentences of plain text."""
    if not lines.times:
        return "Nothing happened."
    sentences = [
        _pods(summary),
        _nodes(summary, lines),
        _interruptions(lives),
        _savings(lines, lives),
        _left(summary),
        _laws(summary),
    ]
    return " ".join(sentence for sentence in sentences if sentence)


def _pods(summary: Mapping[str, Any]) -> str:
    waits = summary["pendingSeconds"]
    placed = f"{counted(summary['podsScheduled'], 'pod')} of {summary['podsCreated']} found a node"
    return f"{placed}, half of them within {waits['p50']:.0f} seconds and 99 percent within {waits['p99']:.0f}."


def _nodes(summary: Mapping[str, Any], lines: Series) -> str:
    totals = [sum(values) for values in zip(*lines.nodes.values(), strict=True)] if lines.nodes else [0]
    peak = max(range(len(totals)), key=lambda index: totals[index])
    verb = "was" if summary["nodesLaunched"] == 1 else "were"
    return (
        f"{counted(summary['nodesLaunched'], 'node')} {verb} launched, at most {totals[peak]} at a time "
        f"({_clock(lines.times[peak])}), {summary['nodesAtEnd']} at the end; all cost ${summary['dollars']:,.2f}."
    )


def _interruptions(lives: Sequence[NodeLifetime]) -> str:
    taken = [life for life in lives if life.noticed is not None]
    if not taken:
        return ""
    first = min(life.noticed for life in taken if life.noticed is not None)
    evicted = sum(len(life.evicted) for life in taken)
    moved = f"{counted(evicted, 'pod')} moved off" if evicted else "no pod had to move"
    return f"From {_clock(first)} on EC2 took {counted(len(taken), 'node')} back and {moved}."


def _savings(lines: Series, lives: Sequence[NodeLifetime]) -> str:
    gone = consolidated(lives)
    if not gone:
        return ""
    moments = [life.disrupted for life in gone if life.disrupted is not None]
    evicted = sum(len(life.evicted) for life in gone)
    when = f" {_span(min(moments), max(moments))}" if moments else ""
    return (
        f"Consolidation removed {counted(len(gone), 'node')}{when} with {counted(evicted, 'eviction')}: the fleet cost "
        f"${lines.hourly[-1]:.2f} an hour at the end, ${lines.kept[-1]:.2f} had those nodes stayed."
    )


def _span(first: datetime, last: datetime) -> str:
    begin, end = _clock(first), _clock(last)
    return f"at {begin}" if begin == end else f"between {begin} and {end}"


def _left(summary: Mapping[str, Any]) -> str:
    left = summary["podsPending"]
    return f"{counted(left, 'pod')} had no place at the end." if left else ""


def _laws(summary: Mapping[str, Any]) -> str:
    broken = sum(int(summary[law]) for law in VIOLATIONS)
    if broken:
        return f"The independent checkers found {counted(broken, 'violation')}."
    return "The independent checkers found no violation of budgets, limits or protected pods, and no orphan."


def _clock(moment: datetime) -> str:
    return f"{moment:%a %H:%M}"
