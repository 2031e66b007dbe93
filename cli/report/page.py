"""The page: headline figures, charts on one time axis, and the table of decisions with their reasons."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from cli.report import charts, series

DECISIONS_MAX = 2000
VIOLATIONS = (
    "budgetViolations",
    "podDisruptionBudgetViolations",
    "doNotDisruptViolations",
    "doubleLaunches",
    "orphanedInstances",
    "limitViolations",
)


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """What a page tells.

    Attributes:
        summary: The SimulationSummary of the contract.
        events: The record: moment, event, fields.
        decisions: What the functions decided, in order: at, function, kind, subject, reason, message.
    """

    summary: Mapping[str, Any]
    events: Sequence[tuple[datetime, str, Mapping[str, Any]]]
    decisions: Sequence[Mapping[str, Any]]


def render(story: Story) -> str:
    """The whole page as one string of HTML; it loads nothing from anywhere."""
    lines = series.from_events(story.events)
    assets = files("cli") / "assets"
    axis = charts.Axis(story.events[0][0], story.events[-1][0])
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>Fleetwright · {escape(str(story.summary['scenario']))}</title>",
            f"<style>{(assets / 'report.css').read_text()}</style></head><body><main>",
            _header(story),
            _figures(story.summary),
            '<section class="charts" id="charts">',
            charts.stacked("Pods pending", axis, lines.times, {"pending": lines.pending}),
            charts.with_markers(axis, lines.markers),
            charts.stacked("Instances by type", axis, lines.times, lines.instances),
            charts.stacked("Price per hour", axis, lines.times, {"price": lines.hourly}, unit="$"),
            charts.stacked("Spent so far", axis, lines.times, {"spent": lines.spent}, unit="$"),
            '<output id="readout" aria-live="polite"></output></section>',
            _decisions(story.decisions),
            _unschedulable(story.summary),
            f'<script type="application/json" id="data">{_data(lines, axis)}</script>',
            f"<script>{(assets / 'report.js').read_text()}</script></main></body></html>",
        )
    )


def _header(story: Story) -> str:
    start, end = story.events[0][0], story.events[-1][0]
    hours = (end - start).total_seconds() / 3600
    return (
        f"<header><h1>{escape(str(story.summary['scenario']))}</h1>"
        f"<p>{start:%a %d %b %Y %H:%M} to {end:%a %d %b %H:%M} UTC: {hours:g} hours of virtual time, simulated in "
        f"{story.summary['wallSeconds']:g} s by the functions that are deployed.</p></header>"
    )


def _figures(summary: Mapping[str, Any]) -> str:
    violations = sum(int(summary[key]) for key in VIOLATIONS)
    waits = summary["pendingSeconds"]
    tiles = (
        (
            "Pods scheduled",
            f"{summary['podsScheduled']} / {summary['podsCreated']}",
            f"{summary['podsPending']} pending at the end",
        ),
        ("Wait for a node", f"{waits['p50']:.0f} s", f"99th percentile {waits['p99']:.0f} s"),
        ("Nodes launched", str(summary["nodesLaunched"]), f"{summary['nodesAtEnd']} at the end"),
        ("Spent", f"${summary['dollars']:,.2f}", f"{summary['instanceHours']:,.0f} instance hours"),
        ("Evictions", str(summary["evictions"]), "through the eviction API or forced"),
        ("Violations", str(violations), "budgets, limits, protected pods, orphans"),
    )
    return f'<dl class="tiles">{"".join(_tile(*tile, bad=tile[0] == "Violations" and violations > 0) for tile in tiles)}</dl>'


def _tile(name: str, value: str, note: str, *, bad: bool) -> str:
    return (
        f'<div class="tile{" bad" if bad else ""}"><dt>{name}</dt><dd>{escape(value)}</dd><small>{note}</small></div>'
    )


def _decisions(decisions: Sequence[Mapping[str, Any]]) -> str:
    rows = "".join(_row(decision) for decision in decisions[:DECISIONS_MAX])
    left_out = len(decisions) - DECISIONS_MAX
    more = f"<p>{left_out} later decisions are left out here.</p>" if left_out > 0 else ""
    return (
        '<section><h2>Decisions</h2><p class="filter"><label>Show <input id="filter" type="search" '
        'placeholder="launch, cart, Underutilized …"></label> <span id="count"></span></p>'
        '<div class="scroll"><table id="decisions"><thead><tr><th>When</th><th>What</th><th>Which</th><th>Reason</th>'
        f"<th>Why</th></tr></thead><tbody>{rows}</tbody></table></div>{more}</section>"
    )


def _row(decision: Mapping[str, Any]) -> str:
    kind, subject, reason, why = (escape(str(decision.get(k) or "")) for k in ("kind", "subject", "reason", "message"))
    when = escape(_moment(decision["at"]))
    return (
        f'<tr class="{kind}"><td><time>{when}</time></td><td><b>{kind}</b></td><td>{subject}</td><td>{reason}</td>'
        f"<td>{why}</td></tr>"
    )


def _unschedulable(summary: Mapping[str, Any]) -> str:
    reasons = summary["podsUnschedulable"]
    if not reasons:
        return ""
    rows = "".join(f"<tr><td>{escape(str(code))}</td><td>{count}</td></tr>" for code, count in sorted(reasons.items()))
    return (
        "<section><h2>Pods that no NodePool can place</h2><table><thead><tr><th>Reason</th><th>Pods</th></tr></thead>"
        f"<tbody>{rows}</tbody></table></section>"
    )


def _moment(value: object) -> str:
    return f"{value:%a %H:%M:%S}" if isinstance(value, datetime) else str(value)


def _data(lines: series.Series, axis: charts.Axis) -> str:
    data = {
        "x": [round(axis.x(at), 1) for at in lines.times],
        "t": [f"{at:%a %H:%M}" for at in lines.times],
        "pending": lines.pending,
        "instances": lines.instances,
        "hourly": [round(v, 4) for v in lines.hourly],
        "spent": [round(v, 2) for v in lines.spent],
    }
    return json.dumps(data).replace("</", "<\\/")
