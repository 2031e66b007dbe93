"""Compares two plans: the answer of `fleetwright diff` for programs, terminals and pull requests."""

from __future__ import annotations

import csv
import html
import io
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from cli.answers.plan import API_VERSION, a_month, cents, prices_line, rfc3339, set_aside_fields
from cli.terminal import output
from cli.terminal.output import counted, reason_page
from cli.terminal.style import on_one_line_each
from core.api.objects import JsonObject
from core.codec import newly_drifted
from core.containment import SetAside
from core.disruption.consolidation_nodes import BOTH_RUN
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.model.values.quantity import dollars
from core.pods import is_evictable
from core.pools import node_price, pool_types, type_of
from core.reasons.nodes import DriftReason, NodeReason

# Writes tables of a document as Markdown, and as one self-contained HTML page.


_STYLE: Final = (
    "<style>:root{color-scheme:light dark}"
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse;margin:1.5rem 0;width:100%}"
    "td,th{text-align:left;vertical-align:top;padding:.3rem .6rem;border-bottom:1px solid #8884}"
    "td:last-child{overflow-wrap:anywhere}"
    ".number{text-align:right;font-variant-numeric:tabular-nums}td.number{white-space:nowrap}"
    "h2{font-size:1.1rem}@media(max-width:640px){body{margin:1rem auto}td,th{padding:.3rem .35rem;font-size:14px}}"
    "</style>"
)

_NUMBER: Final = re.compile(r"[-+]?\$?[\d,]*\.?\d+%?|-?")


_BLOCK: Final = re.compile(r"^(?:#|>|[-+*=_](?=[-+*=_\s]))")
"""What begins a heading, a quotation, a list or a rule at the start of a line."""


def markdown_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [f"| {' | '.join(headings)} |", f"|{'|'.join(' --- ' for _ in headings)}|"]
    return [*lines, *(f"| {' | '.join(markdown_text(cell) for cell in row)} |" for row in rows)]


def markdown_text(cell: Any) -> str:
    """Return the cell on one line, without anything that begins a heading, a list, a tag, code, a link or a mention."""
    line = _BLOCK.sub(r"\\\g<0>", " ".join(str(cell).splitlines()).strip())
    text = line.replace("|", " ").replace("](", "] (").replace("`", "'")
    return text.replace("<", "&lt;").replace("@", "&#64;")


def html_table(headings: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table in HTML. A column of nothing but numbers is aligned to the right."""
    cells = [[str(cell) for cell in row] for row in rows]
    kinds = [
        ' class="number"' if cells and all(_NUMBER.fullmatch(row[column]) for row in cells) else ""
        for column in range(len(headings))
    ]
    # A screen reader would announce an empty heading.
    head = "".join(
        f'<th scope="col"{kind}>{html.escape(heading)}</th>' if heading else "<td></td>"
        for heading, kind in zip(headings, kinds, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{html.escape(cell)}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>"
        for row in cells
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def html_page(title: str, head: str, sections: Iterable[str], notes: tuple[str, Iterable[str]]) -> str:
    """Return a whole page: a title, a sentence, HTML sections, and a heading with its list of notes."""
    heading, lines = notes
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
    body = (
        f"<h1>{html.escape(title)}</h1><p>{html.escape(head)}</p>{''.join(sections)}"
        f"<h2>{html.escape(heading)}</h2><ul>{listed}</ul>"
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{html.escape(title)}</title>{_STYLE}</head><body><main>{body}</main></body></html>\n"
    )


_NAMED_MAX: Final = 10
"""Most names of a list in a table; the JSON has all."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of the comparison.

    Attributes:
        hourly: The cost of running and new nodes, in nano-dollars per hour.
        set_aside: Objects that the side is planned without.
    """

    snapshot: Snapshot
    plan: Plan
    hourly: int
    prices: JsonObject
    set_aside: tuple[SetAside, ...] = ()


def difference_document(before: Side, after: Side) -> JsonObject:
    """Return `kind: Difference`. A pod is lost if it has no place after the change, and had one before or is new."""
    earlier, later = _unplaced(before), _unplaced(after)
    present = {pod.key for pod in after.snapshot.pods}
    drifted = newly_drifted(before.snapshot, after.snapshot)
    reasons = {unplaced.pod: unplaced for unplaced in after.plan.unschedulable}
    return {
        "apiVersion": API_VERSION,
        "kind": "Difference",
        "now": rfc3339(after.plan.now),
        "prices": after.prices,
        "before": _side(before),
        "after": _side(after),
        "podsLost": sorted(later - earlier),
        "podsGained": sorted((earlier - later) & present),
        "nodesDrifted": [
            {"node": unplaced.node, "nodePool": unplaced.node_pool, "reason": str(unplaced.reason)}
            for unplaced in drifted
        ],
        "drift": _drift_cost(after.snapshot, {unplaced.node for unplaced in drifted}),
        "reasons": {
            pod: {
                "reason": str(reasons[pod].reason),
                "message": reasons[pod].message,
                "page": reason_page(reasons[pod].reason),
            }
            for pod in sorted(later)
        },
    }


def as_table(document: JsonObject) -> str:
    """Format the difference for a terminal."""
    rows = [(what, before, after, change) for what, before, after, change in _total_rows(document)]
    table = output.table(("", "BEFORE", "AFTER", "CHANGE"), rows)
    return "\n\n".join(part for part in (table, *_details(document), prices_line(document)) if part)


def as_markdown(document: JsonObject) -> str:
    """Format the difference as a comment on a pull request."""
    document = on_one_line_each(document)
    lines = ["### Fleetwright: what this change does", "", "| | before | after | |", "| --- | ---: | ---: | --- |"]
    lines += [f"| {what} | {before} | {after} | {change} |" for what, before, after, change in _total_rows(document)]
    for detail in _details(document):
        heading, *rest = detail.splitlines()
        lines += ["", f"**{heading}**", "", *(f"- {markdown_text(line)}" for line in rest)]
    return "\n".join(lines)


def _drift_cost(snapshot: Snapshot, nodes: set[str]) -> JsonObject:
    """Return what the replacement of drifted nodes takes; the surge is the time in which a node and its replacement run."""
    going = [state for state in state_nodes(snapshot) if state.name in nodes]
    hourly = sum(
        node_price(state.labels, type_of(state.labels, pool_types(snapshot).by_name(state.node_pool)))
        for state in going
    )
    evicted = sum(
        pod.node_name in nodes and not pod.is_daemon and is_evictable(pod, snapshot.now) for pod in snapshot.pods
    )
    surge = hourly * BOTH_RUN // timedelta(hours=1)
    return {"nodes": len(going), "evictions": evicted, "surgeDollars": dollars(surge)}


def _unplaced(side: Side) -> set[str]:
    return {unplaced.pod for unplaced in side.plan.unschedulable}


def _side(side: Side) -> JsonObject:
    running = sum(state.is_managed for state in state_nodes(side.snapshot))
    return {
        "hourly": dollars(side.hourly),
        "monthly": cents(a_month(dollars(side.hourly))),
        "nodes": running + len(side.plan.claims),
        "unschedulable": sorted(_unplaced(side)),
        **set_aside_fields(side.set_aside),
    }


def _total_rows(document: JsonObject) -> list[tuple[str, str, str, str]]:
    before, after = document["before"], document["after"]
    drifted = document["nodesDrifted"]
    return [
        ("nodes", str(before["nodes"]), str(after["nodes"]), _signed(after["nodes"] - before["nodes"])),
        (
            "$ an hour",
            f"{before['hourly']:.4f}",
            f"{after['hourly']:.4f}",
            _money(before["hourly"], after["hourly"], 4),
        ),
        (
            "$ a month",
            f"{before['monthly']:,.0f}",
            f"{after['monthly']:,.0f}",
            _money(before["monthly"], after["monthly"], 0),
        ),
        (
            "pods without a place",
            str(len(before["unschedulable"])),
            str(len(after["unschedulable"])),
            _signed(len(after["unschedulable"]) - len(before["unschedulable"])),
        ),
        ("nodes that drift", "-", str(len(drifted)), _signed(len(drifted))),
    ]


def _details(document: JsonObject) -> list[str]:
    """Return the objects behind the counts, each as a heading and indented lines."""
    details = []
    for side in ("before", "after"):
        aside = document[side].get("setAside", ())
        lines = [f"  {entry['object']} [{entry['reason']}]: {entry['message']}" for entry in aside[:_NAMED_MAX]]
        heading = f"{output.counted(len(aside), 'object')} {side} the change set aside: planned without"
        details += ["\n".join([heading, *lines, *_more(len(aside))])] if aside else []
    for field, change in (("podsLost", "left without a place"), ("podsGained", "given a place")):
        pods = document[field]
        if pods:
            shown = [f"  {pod}{_reason(document, pod)}" for pod in pods[:_NAMED_MAX]]
            details.append("\n".join([f"{output.counted(len(pods), 'pod')} {change}", *shown, *_more(len(pods))]))
    if document["nodesDrifted"]:
        groups = Counter((entry["nodePool"], entry["reason"]) for entry in document["nodesDrifted"])
        lines = [
            f"  NodePool {pool}: {output.counted(n, 'node')}, {_meaning(code)}"
            for (pool, code), n in sorted(groups.items())
        ]
        names = [f"  {entry['node']}" for entry in document["nodesDrifted"][:_NAMED_MAX]]
        heading = (
            f"{output.counted(len(document['nodesDrifted']), 'node')} to be replaced, as the disruption budgets allow"
        )
        drift = document["drift"]
        surge = f"${drift['surgeDollars']:,.4f} while old and new nodes both run"
        cost = f"  {output.counted(drift['evictions'], 'eviction')}; {surge}"
        details.append("\n".join([heading, cost, *lines, *names, *_more(len(document["nodesDrifted"]))]))
    return details


def _reason(document: JsonObject, pod: str) -> str:
    return f"  [{document['reasons'][pod]['reason']}]" if pod in document["reasons"] else ""


def _more(count: int) -> list[str]:
    return [f"  and {count - _NAMED_MAX} more"] if count > _NAMED_MAX else []


def _meaning(code: str) -> str:
    """Return the meaning of a drift reason; an unknown code, from a condition in the cluster, is returned itself."""
    documented: dict[str, Any] = {str(member): member for member in (*DriftReason, NodeReason.NODE_POOL_NOT_FOUND)}
    return f"{code}: {documented[code].clause}" if code in documented else code


def _money(before: float, after: float, digits: int) -> str:
    change = round(after - before, digits)
    if not change:
        return "="
    share = f" ({change / before:+.0%})" if before else ""
    return f"{'-' if change < 0 else '+'}{abs(change):,.{digits}f}{share}"


def _signed(change: int) -> str:
    return f"{change:+d}" if change else "="


# A period's report for people: text, Markdown, HTML, CSV.


_SAME: Final = 0.0005
"""Differences below this share count as none."""


def report_table(document: JsonObject) -> str:
    """Format the report for a terminal."""
    parts = [
        output.wrapped(_head(document)),
        output.table(("", "DOLLARS", "AGAINST WHAT WAS SPENT"), _against(document)),
    ]
    for name, rows in document["by"].items():
        parts.append(output.table((name.upper(), "DOLLARS", "SHARE"), _shares(rows, document["dollars"])))
    causes = _cause_rows(document)
    if causes:
        parts.append(output.table(("IDLE $", "KEPT BY", "ABOVE ALL"), causes))
    parts.append(output.wrapped("\n".join(["how it is counted:", *document["assumptions"]])))
    return "\n\n".join(parts)


def report_markdown(document: JsonObject) -> str:
    """Format the report for a wiki or a pull request."""
    lines = [f"### {_head(document)}", ""]
    lines += markdown_table(("", "dollars", "against what was spent"), _against(document))
    for name, rows in document["by"].items():
        lines += ["", *markdown_table((name, "dollars", "share"), _shares(rows, document["dollars"]))]
    causes = _cause_rows(document)
    if causes:
        lines += ["", *markdown_table(("idle $", "kept by", "above all"), causes)]
    return "\n".join([*lines, "", *(f"- {assumed}" for assumed in document["assumptions"])]) + "\n"


def report_html(document: JsonObject) -> str:
    """Format the report as one self-contained page."""
    sections = [html_table(("", "dollars", "against what was spent"), _against(document))]
    for name, rows in document["by"].items():
        sections.append(html_table((name, "dollars", "share"), _shares(rows, document["dollars"])))
    causes = _cause_rows(document)
    if causes:
        sections.append(html_table(("idle $", "kept by", "above all"), causes))
    notes = ("How it is counted", document["assumptions"])
    return html_page("Fleetwright report", _head(document), sections, notes)


def report_csv(document: JsonObject) -> str:
    """Format one line for each name of each table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("from", "to", "by", "name", "dollars"))
    for name, rows in document["by"].items():
        for key, part in rows.items():
            writer.writerow((document["from"], document["to"], name, key, f"{part:.6f}"))
    return text.getvalue()


def _cause_rows(document: JsonObject) -> list[tuple[str, str, str]]:
    return [
        (f"{cause['dollars']:,.4f}", cause["reason"], cause["objects"][0]["message"])
        for cause in document["idle"]["causes"]
    ]


def _head(document: JsonObject) -> str:
    period = f"{document['from'][:16].replace('T', ' ')} to {document['to'][:16].replace('T', ' ')} UTC"
    moved = document["consolidation"]
    return (
        f"{period}: ${document['dollars']:,.4f} for {document['instanceHours']:,.2f} hours of "
        f"{counted(document['instances'], 'instance')}; {counted(moved['commands'], 'command')} of consolidation and drift "
        f"saved ${moved['hourlySaved']:,.4f} an hour and moved {counted(moved['podsMoved'], 'pod')}"
    )


def _against(document: JsonObject) -> list[tuple[str, str, str]]:
    spent, baselines, minimum = document["dollars"], document["baselines"], document["provenMinimum"]
    rows, covered = [("spent", f"{spent:,.4f}", "")], document["covered"]
    rows += [("of it covered by commitments", f"{covered:,.4f}", _share(covered, spent))] if covered is not None else []
    amounts: Iterable[tuple[str, float | None]] = (
        ("on demand", baselines["onDemand"]),
        ("without consolidation (simulated)", baselines["withoutConsolidation"]),
    )
    rows += [(name, f"{value:,.4f}", _relative(spent, value)) for name, value in amounts if value is not None]
    if minimum is not None:
        meant = f"of ${minimum['spentMeanwhile']:,.4f} in {minimum['hours']:,.2f} hours"
        rows.append(("proven minimum", f"{minimum['dollars']:,.4f}", meant))
    rows.append(("idle", f"{document['idle']['dollars']:,.4f}", _share(document["idle"]["dollars"], spent)))
    return rows


def _relative(spent: float, baseline: float) -> str:
    """Return the difference in words; it says so if our cost is higher."""
    if not baseline:
        return ""
    share = (baseline - spent) / baseline
    if abs(share) < _SAME:
        return "the same was spent"
    return f"{abs(share):.1%} {'less' if share >= 0 else 'MORE'} was spent"


def _shares(rows: dict[str, float], spent: float) -> list[tuple[str, str, str]]:
    return [(name, f"{part:,.4f}", _share(part, spent)) for name, part in rows.items()]


def _share(part: float, total: float) -> str:
    return f"{part / total:.1%}" if total else ""


# The shadow report for people: text, Markdown, HTML.


_HEADINGS: Final = ("", "KARPENTER DID", "WE WOULD HAVE", "DIFFERENCE")


def shadow_table(document: JsonObject) -> str:
    """Format the report for a terminal."""
    parts = [
        output.wrapped(_shadow_head(document)),
        output.table(_HEADINGS, _shadow_rows(document)),
        _worse_text(document),
    ]
    return "\n\n".join([*parts, output.wrapped("\n".join(["assumed:", *document["assumptions"]]))])


def shadow_markdown(document: JsonObject) -> str:
    """Format the report for a wiki."""
    lines = ["### Fleetwright beside Karpenter", "", _shadow_head(document), ""]
    lines += markdown_table([heading.capitalize() for heading in _HEADINGS], _shadow_rows(document))
    lines += ["", "Where we would have been worse:", "", *(f"- {line}" for line in _worse_lines(document))]
    return "\n".join([*lines, "", "Assumed:", "", *(f"- {assumed}" for assumed in document["assumptions"])]) + "\n"


def shadow_html(document: JsonObject) -> str:
    """Format the report as one self-contained page."""
    sections = [html_table([heading.capitalize() for heading in _HEADINGS], _shadow_rows(document))]
    sections.append(html_table(("where we would have been worse",), [(line,) for line in _worse_lines(document)]))
    notes = ("Assumed", document["assumptions"])
    return html_page("Fleetwright beside Karpenter", _shadow_head(document), sections, notes)


def _shadow_head(document: JsonObject) -> str:
    period = f"{document['from'][:16].replace('T', ' ')} to {document['to'][:16].replace('T', ' ')} UTC"
    difference = document["difference"]
    share = "" if difference["share"] is None else f" ({difference['share']:+.1%})"
    minimum = document["provenMinimum"]
    proven = ""
    if minimum is not None and minimum["spentMeanwhile"]:
        least, spent = f"{minimum['dollars']:,.4f}", f"{minimum['spentMeanwhile']:,.4f}"
        proven = f"; of ${spent} in {minimum['hours']:,.2f} h any fleet must spend ${least}"
    return (
        f"{period}, {counted(document['snapshots'], 'snapshot')}: {difference['dollars']:+,.4f} dollars{share}, "
        f"{difference['monthly']:+,.2f} a month{proven}"
    )


def _shadow_rows(document: JsonObject) -> list[tuple[str, str, str, str]]:
    did, would = document["recorded"], document["simulated"]
    rows = [
        _row("dollars", did["dollars"], would["dollars"], ",.4f"),
        _row("a month", did["monthly"], would["monthly"], ",.2f"),
        _row("node hours", did["nodeHours"], would["nodeHours"], ",.2f"),
        _row("nodes launched", did["nodesLaunched"], would["nodesLaunched"], "d"),
        _row("nodes at the end", did["nodesAtEnd"], would["nodesAtEnd"], "d"),
        _row("evictions by choice", did["evictions"], would["evictions"], "d"),
        ("evictions otherwise", str(did["otherEvictions"]), "-", ""),
    ]
    for key, name in (("long", "pods that waited > 2 min"), ("p50", "median wait, s"), ("max", "longest wait, s")):
        rows.append(_row(name, did["waits"][key], would["waits"][key], "d" if key == "long" else ",.0f"))
    without = (len(did["waits"]["withoutPlace"]), len(would["waits"]["withoutPlace"]))
    rows.append(_row("pods without a place", *without, "d"))
    rows.append(("rules that would be violated", "-", str(len(document["violations"])), ""))
    return rows


def _row(name: str, did: Any, would: Any, form: str) -> tuple[str, str, str, str]:
    if did is None or would is None:
        return name, "-" if did is None else f"{did:{form}}", "-" if would is None else f"{would:{form}}", ""
    return name, f"{did:{form}}", f"{would:{form}}", f"{would - did:+{form}}"


def _worse_lines(document: JsonObject) -> list[str]:
    lines = []
    for entry in document["worse"]:
        named = f": {', '.join(entry['pods'])}" if entry["pods"] else ""
        lines.append(f"{entry['message']}{named}")
    return lines or ["nowhere, in what is compared here"]


def _worse_text(document: JsonObject) -> str:
    return output.wrapped("\n".join(["where we would have been worse:", *_worse_lines(document)]))
