"""The page: a paragraph, headline figures, charts and a timeline of nodes on one time axis, and every command with its chain.

Charts are drawn by uPlot (MIT, `cli/assets/vendor`) at the device's width; text and tables need no script.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from html import escape
from importlib.resources import files
from typing import Any, Final

from cli.report import series
from cli.report.chains import Chain, chains, consolidated, replacements
from cli.report.node_lifetimes import lives
from cli.report.page_data import PODS_NAMED_MAX, PageContent, page_data
from cli.report.paragraph import paragraph
from simulator.outcome.summary import VIOLATIONS

ROWS_MAX: Final = 2000
_UPLOT: Final = "uPlot-1.6.32"


def render(content: PageContent) -> str:
    """Return the whole page as one string of self-contained HTML."""
    found = lives(content.events)
    gone, came = consolidated(found), replacements(found, content.decisions)
    lines = series.from_events(content.events, {n.instance for n in gone}, {n.instance for n in came})
    rows = chains(found, content.decisions)
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
            f'<p id="story">{escape(paragraph(content.summary, lines, found))}</p>',
            _figures(content.summary, lines),
            _charts(),
            _decisions(rows),
            _unplaced(content),
            f'<script type="application/json" id="data">{page_data(content, lines, found)}</script>',
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
    said = {str(d["subject"]): d for d in content.decisions if d["kind"] == "unschedulable"}
    rows = "".join(
        f"<tr><td>{escape(pod)}</td><td>{since:%a %H:%M}</td><td>{_nearest(said.get(pod, {}))}</td></tr>"
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
