"""The page: a paragraph, headline figures, charts and a timeline of nodes on one time axis, and every command with its chain.

Charts are drawn by uPlot (MIT, `cli/assets/vendor`) at the device's width; text and tables need no script.
"""

from __future__ import annotations

import argparse
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from html import escape
from importlib.resources import files
from typing import Any, Final

import msgspec

from cli.ledger.entries import PeriodReader, open_ledger
from cli.report import series
from cli.report.series import Chain, Events, NodeLifetime, Series, chains, consolidated, lives, replacements
from cli.terminal.output import counted
from cli.terminal.style import Steps as Progress
from core.api.objects import mapping, sequence
from core.counterfactual.simulation import SimulationRules, simulated_periods
from core.cron import Schedule
from core.errors import InvalidInputError
from core.interpreter import collector_paused
from core.model.values.quantity import dollars, parse_duration
from simulator.outcome import VIOLATIONS

# Background for the lines of the report: budget windows, steps of the scenario, interruptions, faults.


HITS_MAX: Final = 500
"""The most windows of one budget that are drawn; a month with an hourly window has more than are readable."""

_SAME_STEP: Final = timedelta(seconds=5)
_NAMED_MAX: Final = 3


class Band(msgspec.Struct, frozen=True, kw_only=True):
    """A labelled span of time: `kind` is window, step, interruption, capacity or fault. A moment has start == end."""

    start: datetime
    end: datetime
    kind: str
    text: str


def bands(events: Events) -> tuple[Band, ...]:
    """Return windows first, then single moments, in order."""
    return (*_windows(events), *_moments(events))


def _windows(events: Events) -> list[Band]:
    """Return when budgets with a schedule are in force; pools with the same window share a band."""
    start, end = events[0][0], events[-1][0]
    pools: dict[str, Mapping[str, Any]] = {
        fields["name"]: mapping(fields.get("object"))
        for _, event, fields in events
        if event == "objectApplied" and fields.get("kind") == "NodePool"
    }
    shared: dict[tuple[datetime, datetime, str], list[str]] = {}
    for name, pool in sorted(pools.items()):
        for budget in sequence(mapping(mapping(pool.get("spec")).get("disruption")).get("budgets")):
            for opens, closes in _spans(budget, start, end):
                shared.setdefault((opens, closes, _limit(budget)), []).append(name)
    return [
        Band(start=opens, end=closes, kind="window", text=f"{', '.join(dict.fromkeys(names))}: {text}")
        for (opens, closes, text), names in sorted(shared.items())
    ]


def _spans(budget: Mapping[str, Any], start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    try:
        span, schedule = parse_duration(str(budget.get("duration"))), Schedule.parse(str(budget.get("schedule")))
    except InvalidInputError:
        return
    if not span:
        return
    opens = schedule.next_after(start - span)
    for _ in range(HITS_MAX):
        if opens is None or opens >= end:
            return
        yield max(opens, start), min(opens + span, end)
        opens = schedule.next_after(opens)


def _limit(budget: Mapping[str, Any]) -> str:
    nodes = str(budget.get("nodes", "10%"))
    what = "no node may go" if nodes in ("0", "0%") else f"at most {nodes} of the nodes may go"
    reasons = budget.get("reasons")
    return f"{what} ({', '.join(reasons)})" if reasons else what


def _moments(events: Events) -> list[Band]:
    """Return the moments; those closer than five seconds are joined with all their texts."""
    started = events[0][0]
    moments: list[tuple[datetime, str, list[str]]] = []
    replicas: dict[str, object] = {}
    for at, event, fields in events:
        kind, text = _kind_and_text(event, fields, replicas)
        if not kind or (kind == "step" and at <= started):
            continue
        if moments and moments[-1][1] == kind and at - moments[-1][0] <= _SAME_STEP:
            moments[-1][2].append(text)
        else:
            moments.append((at, kind, [text]))
    return [Band(start=at, end=at, kind=kind, text=_joined(kind, texts)) for at, kind, texts in moments]


def _kind_and_text(event: str, fields: Mapping[str, Any], replicas: dict[str, object]) -> tuple[str, str]:
    """Return kind and text of one event; empty for actions of the functions or the cluster."""
    if event == "interruptionNotice":
        return "interruption", str(fields["kind"])
    if event == "fault":
        return "fault", f"{fields['kind']} at {fields['call']}"
    if event == "capacityChanged":
        what = "/".join(str(fields.get(key) or "*") for key in ("instanceType", "zone", "capacityType"))
        available = fields.get("available")
        return "capacity", f"{what}: {'as before' if available is None else f'{available} left'}"
    if fields.get("by") != "user" or event not in ("objectApplied", "objectDeleted"):
        return "", ""
    named = f"{fields['kind']} {fields['name']}"
    if event == "objectDeleted":
        return "step", f"deleted {named}"
    count = mapping(mapping(fields.get("object")).get("spec")).get("replicas")
    is_known, before = named in replicas, replicas.get(named)
    replicas[named] = count
    if count is None:
        return "step", named
    return (
        "step",
        f"{fields['name']} {before} to {count}" if is_known and before != count else f"{fields['name']}: {count}",
    )


def _joined(kind: str, texts: list[str]) -> str:
    counts = {text: texts.count(text) for text in texts}
    if kind == "interruption":
        return ", ".join(f"{count} {text} notice{'s' if count > 1 else ''}" for text, count in counts.items())
    parts = [f"{text}, {count} times" if count > 1 else text for text, count in counts.items()]
    more = len(parts) - _NAMED_MAX
    return "; ".join(parts[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


# Computes two lines of the page: the fleet's hourly cost with Karpenter's moves, and its proven minimum.


Steps = tuple[tuple[datetime, int], ...]
"""Times, and nano-dollars per hour from each on."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two other costs of the same period.

    Attributes:
        karpenter: The fleet of the same pods when nodes go by Karpenter's moves alone; our planner launches for both.
        minimum: The proven lower bound of each decision of `disrupt`; no fleet for its pods costs less.
    """

    karpenter: Steps
    minimum: Steps


def compared(ledger: str, steps: Progress) -> Comparison:
    """Simulate the decisions in the ledger of a scenario again; `steps` counts them.

    Raises:
        InputError: If the ledger has no decision.
    """
    period = PeriodReader(open_ledger(ledger), argparse.Namespace(cluster=None, since=None, until=None))
    decisions = list(period.decisions())
    minimum = tuple(
        (decision.snapshot.now, decision.plan.cost.lower_bound)
        for decision in decisions
        if decision.plan is not None and decision.plan.cost.lower_bound is not None
    )
    snapshots = [decision.snapshot for decision in decisions]
    steps.total = len(snapshots)
    with collector_paused():
        _, (simulated,) = simulated_periods(
            steps.over(snapshots), (SimulationRules(karpenter_moves_only=True),), period.until
        )
    return Comparison(karpenter=simulated.series, minimum=minimum)


def sampled(steps: Steps, times: Sequence[datetime]) -> list[float | None]:
    """Return dollars per hour at each time: those of the last step up to then, None before the first."""
    moments = [moment for moment, _ in steps]
    places = [bisect_right(moments, time) for time in times]
    return [round(dollars(steps[place - 1][1]), 4) if place else None for place in places]


# The data of the page's charts and timeline, as JSON for its script.


NODES_MAX: Final = 1500
PODS_NAMED_MAX: Final = 60


class PageContent(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a page.

    Attributes:
        summary: The SimulationSummary of the contract.
        events: The record: moment, event, fields.
        decisions: The functions' decisions, in order: at, function, kind, subject, reason, message.
        comparison: The comparison, None if it was not requested.
    """

    summary: Mapping[str, Any]
    events: Sequence[tuple[datetime, str, Mapping[str, Any]]]
    decisions: Sequence[Mapping[str, Any]]
    comparison: Comparison | None = None


def page_data(content: PageContent, lines: series.Series, lifetimes: Sequence[NodeLifetime]) -> str:
    """Return the data of the charts, and of the nodes that fit."""
    end = content.events[-1][0]
    data: dict[str, Any] = {
        "start": _seconds(content.events[0][0]),
        "end": _seconds(end),
        "t": [_seconds(at) for at in lines.times],
        "pending": lines.pending,
        "nodes": lines.nodes,
        "hourly": [round(value, 4) for value in lines.hourly],
        "kept": [round(value, 4) for value in lines.kept],
        "spent": [round(value, 3) for value in lines.spent],
        "bands": [_band(band) for band in bands(content.events)],
        "lives": [_life(life, end) for life in lifetimes[:NODES_MAX]],
    }
    if content.comparison is not None:
        data["karpenter"] = sampled(content.comparison.karpenter, lines.times)
        data["minimum"] = sampled(content.comparison.minimum, lines.times)
    return json.dumps(data, separators=(",", ":")).replace(
        "<", "\\u003c"
    )  # so that neither an end tag nor a comment starts in it


def _band(band: Band) -> dict[str, Any]:
    return {"from": _seconds(band.start), "to": _seconds(band.end), "kind": band.kind, "text": band.text}


def _life(life: NodeLifetime, end: datetime) -> dict[str, Any]:
    moments = {
        key: _seconds(moment)
        for key, moment in (
            ("launched", life.launched),
            ("joined", life.joined),
            ("ready", life.ready),
            ("noticed", life.noticed),
            ("disrupted", life.disrupted),
            ("ended", life.ended),
        )
        if moment is not None
    }
    return {
        "name": life.name,
        "claim": life.claim,
        "pool": life.pool,
        "type": life.instance_type,
        "zone": life.zone,
        "capacity": life.capacity_type,
        "price": life.price,
        "cost": round(life.cost(end), 4),
        "reason": life.reason,
        "pods": list(dict.fromkeys(life.pods))[:PODS_NAMED_MAX],
        "podCount": len(set(life.pods)),
        "evicted": len(life.evicted),
        **moments,
    }


def _seconds(moment: datetime) -> int:
    return round(moment.timestamp())


# Writes the paragraph at the top of the page: what happened, what it cost, what remains.


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
    pending = summary["podsPending"]
    return f"{counted(pending, 'pod')} had no place at the end." if pending else ""


def _laws(summary: Mapping[str, Any]) -> str:
    broken = sum(int(summary[law]) for law in VIOLATIONS)
    if broken:
        return f"The independent checkers found {counted(broken, 'violation')}."
    return "The independent checkers found no violation of budgets, limits or protected pods, and no orphan."


def _clock(moment: datetime) -> str:
    return f"{moment:%a %H:%M}"


ROWS_MAX: Final = 2000
_UPLOT: Final = "uPlot-1.6.32"


def render(content: PageContent) -> str:
    """Return the whole page as one string of self-contained HTML."""
    all_lives = lives(content.events)
    gone, came = consolidated(all_lives), replacements(all_lives, content.decisions)
    lines = series.from_events(content.events, {n.instance for n in gone}, {n.instance for n in came})
    rows = chains(all_lives, content.decisions)
    assets = files("cli") / "assets"
    style = (assets / "vendor" / f"{_UPLOT}.min.css").read_text() + (assets / "report.css").read_text()
    uplot = (assets / "vendor" / f"{_UPLOT}.iife.min.js").read_text()
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            f"<title>Fleetwright: {escape(str(content.summary['scenario']))}</title>",
            f"<style>{style}</style></head><body><main>",
            _header(content),
            f'<p id="story">{escape(paragraph(content.summary, lines, all_lives))}</p>',
            _figures(content.summary, lines),
            _charts(),
            _decisions(rows),
            _unplaced(content),
            f'<script type="application/json" id="data">{page_data(content, lines, all_lives)}</script>',
            f"<script>{uplot}</script><script>{(assets / 'report.js').read_text()}</script></main></body></html>",
        )
    )


def _header(content: PageContent) -> str:
    start, end = content.events[0][0], content.events[-1][0]
    hours = (end - start).total_seconds() / 3600
    return (
        f"<header><h1>{escape(str(content.summary['scenario']))}</h1>"
        f"<p>{start:%a %d %b %Y %H:%M} to {end:%a %d %b %H:%M} UTC. {round(hours, 2):g} hours of virtual time, simulated in "
        f"{content.summary['wallSeconds']:g} s by the functions that are deployed.</p></header>"
    )


def _figures(summary: Mapping[str, Any], lines: series.Series) -> str:
    violations = sum(int(summary[key]) for key in VIOLATIONS)
    waits = summary["pendingSeconds"]
    kept = lines.kept[-1] if lines.kept else 0.0
    tiles = (
        (
            "Pods placed",
            f"{summary['podsScheduled']} of {summary['podsCreated']}",
            f"{summary['podsPending']} {'waits' if summary['podsPending'] == 1 else 'wait'} at the end",
        ),
        ("Wait for a node", f"{waits['p50']:.0f} s", f"99 in 100 at most {waits['p99']:.0f} s"),
        ("Nodes", str(summary["nodesLaunched"]), f"launched; {summary['nodesAtEnd']} run at the end"),
        (
            "Spent",
            f"${summary['dollars']:,.2f}",
            f"${summary['dollars'] / max(summary['instanceHours'], 1e-9):.3f} a node and hour",
        ),
        ("At the end", f"${lines.hourly[-1] if lines.hourly else 0:.2f}/h", f"${kept:.2f}/h without consolidation"),
        ("Evictions", str(summary["evictions"]), "by the eviction API or forced"),
        ("Violations", f"{'✗' if violations else '✓'} {violations}", "found by independent checkers"),
    )
    return f'<dl class="tiles">{"".join(_tile(*tile, bad=tile[0] == "Violations" and violations > 0) for tile in tiles)}</dl>'


def _tile(name: str, value: str, note: str, *, bad: bool) -> str:
    return (
        f'<div class="tile{" bad" if bad else ""}"><dt>{name}</dt><dd>{escape(value)} <small>{note}</small></dd></div>'
    )


def _charts() -> str:
    charts = "".join(
        f'<figure><figcaption id="{key}-title">{title}</figcaption><div class="chart" id="{key}" role="img" '
        f'aria-labelledby="{key}-title"></div></figure>'
        for key, title in (
            ("pending", "Pods that wait"),
            ("nodes", "Nodes by capacity type"),
            ("hourly", "Dollars an hour"),
            ("spent", "Dollars so far"),
        )
    )
    return (
        '<section class="charts" id="charts"><p class="hint">Drag over a chart to look closer. Arrow keys move the cursor, '
        "<kbd>+</kbd> and <kbd>-</kbd> zoom, <kbd>Esc</kbd> shows all. "
        '<button type="button" id="reset" hidden>Show all</button></p><output id="readout" aria-live="polite"></output>'
        f'<div id="plots" tabindex="0" role="group" aria-label="Charts over time">{charts}</div>'
        '<h2>Nodes</h2><ul class="legend" id="capacity"></ul><div id="timeline" class="scroll"></div>'
        '<section id="life" aria-label="The chosen node" aria-live="polite" hidden></section>'
        '<details><summary>What happened around it</summary><ol id="bands"></ol></details></section>'
    )


def _decisions(rows: Sequence[Chain]) -> str:
    written = "".join(_row(row) for row in rows[:ROWS_MAX])
    left_out = len(rows) - ROWS_MAX
    more = f"<p>{left_out} later rows are left out here.</p>" if left_out > 0 else ""
    return (
        '<section><h2>Commands</h2><p class="filter"><label>Show <input id="filter" type="search" '
        'placeholder="launch, cart, Underutilized"></label> <span id="count"></span></p>'
        '<div class="scroll" tabindex="0" role="region" aria-label="Commands"><table id="decisions"><thead><tr>'
        '<th scope="col">When</th><th scope="col">What</th><th scope="col">Which</th><th scope="col">Why</th></tr></thead>'
        f"<tbody>{written}</tbody></table></div>{more}</section>"
    )


def _row(row: Chain) -> str:
    links = "".join(
        f"<li><time>{moment:%H:%M:%S}</time> <b>{escape(word)}</b> {escape(details)}</li>"
        for moment, word, details in row.links
    )
    steps = " → ".join(word for _, word, _ in row.links)
    chain = f"<details><summary>{escape(steps)}</summary><ol>{links}</ol></details>" if links else ""
    reason = f"<code>{escape(row.reason)}</code> " if row.reason else ""
    nodes = escape(" ".join(row.nodes))
    names = ", ".join(f'<span class="name">{escape(name)}</span>' for name in row.which.split(", "))
    return (
        f'<tr class="{escape(row.what)}" data-t="{row.at.timestamp():.0f}" data-nodes="{nodes}">'
        f"<td><time>{row.at:%a %H:%M:%S}</time></td><td><b>{escape(row.what)}</b></td><td>{names}</td>"
        f"<td>{reason}{escape(row.why)}{chain}</td></tr>"
    )


def _unplaced(content: PageContent) -> str:
    """List the pods that wait at the end by name, with the latest reason of each."""
    waiting: dict[str, datetime] = {}
    for at, event, fields in content.events:
        if event == "podCreated" and not str(fields.get("owner")).startswith("DaemonSet/"):
            waiting[fields["pod"]] = at
        elif event in ("podBound", "podDeleted", "podFinished"):
            waiting.pop(fields["pod"], None)
    if not waiting:
        return ""
    decision_by_pod = {str(d["subject"]): d for d in content.decisions if d["kind"] == "unschedulable"}
    rows = "".join(
        f"<tr><td>{escape(pod)}</td><td>{since:%a %H:%M}</td><td>{_nearest(decision_by_pod.get(pod, {}))}</td></tr>"
        for pod, since in list(waiting.items())[:PODS_NAMED_MAX]
    )
    more = f"<p>And {len(waiting) - PODS_NAMED_MAX} more.</p>" if len(waiting) > PODS_NAMED_MAX else ""
    return (
        "<section><h2>Pods without a place</h2>"
        '<div class="scroll" tabindex="0" role="region" aria-label="Pods without a place">'
        '<table><thead><tr><th scope="col">Pod</th><th scope="col">Since</th><th scope="col">Why</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{more}</section>"
    )


def _nearest(decision: Mapping[str, Any]) -> str:
    lines = str(decision.get("message") or "no function has said why yet").splitlines()
    rest = "".join(f"<li>{escape(line.strip())}</li>" for line in lines[1:] if line.strip())
    more = f"<details><summary>every NodePool</summary><ul>{rest}</ul></details>" if rest else ""
    code = f"<code>{escape(str(decision['reason']))}</code> " if decision.get("reason") else ""
    return f"{code}{escape(lines[0])}{more}"
