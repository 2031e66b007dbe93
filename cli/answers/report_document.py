"""A period's report as data, and for people: text, Markdown, HTML, CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from cli.answers.plan_document import API_VERSION
from cli.answers.written_tables import html_page, html_table, markdown_table
from cli.terminal import output
from cli.terminal.output import counted, rfc3339
from core.api.objects import JsonObject
from core.cost_report.report import CostReport
from core.ledger.entry import DISRUPT
from core.ledger.log import LogEntry
from core.model.values.quantity import dollars

_SAME: Final = 0.0005
"""Share that is rounded away."""

OBJECTS_SHOWN: Final = 5
"""Sentences under one reason."""

ASSUMPTIONS: Final = (
    "instances cost the price of their launch from launch to termination; discounts, volumes and traffic are not in it",
    "namespaces share a node by requests, the larger share of processor and memory; what nobody requests is (idle)",
    "on demand: the same instances for the same hours at on-demand prices",
    "without consolidation: what was spent, times the ratio of two plays of the period, without and with consolidation",
)


class BaselinePlay(msgspec.Struct, frozen=True):
    """Two plays of the period: as it was asked for, and with every node kept."""

    asked: int
    kept: int


def report_document(
    report: CostReport,
    log: Sequence[LogEntry],
    baseline: BaselinePlay | None,
    *,
    period: tuple[datetime, datetime],
    by: Sequence[str],
) -> JsonObject:
    """`kind: Report`. Each table of `by` sums to `dollars`."""
    spent = dollars(report.cost)
    commands = [line for line in log if line.function == DISRUPT and line.objects and line.moves | abs(line.hourly)]
    saved = -sum(line.hourly for line in commands)
    moves = sum(line.moves for line in commands)
    kept = None
    if baseline is not None and baseline.asked:
        kept = spent * baseline.kept / baseline.asked
    return {
        "apiVersion": API_VERSION,
        "kind": "Report",
        "from": rfc3339(period[0]),
        "to": rfc3339(period[1]),
        "dollars": round(spent, 6),
        "instanceHours": round(report.hours, 4),
        "instances": report.instances,
        "baselines": {
            "onDemand": None if report.on_demand is None else round(dollars(report.on_demand), 6),
            "withoutConsolidation": None if kept is None else round(kept, 6),
        },
        "provenMinimum": _minimum(report),
        "consolidation": {
            "commands": len(commands),
            "podsMoved": moves,
            "hourlySaved": dollars(saved),
            "hourlySavedPerMove": round(dollars(saved) / moves, 6) if moves else None,
        },
        "by": {name: {key: round(dollars(part), 6) for key, part in report.by[name].items()} for name in by},
        "idle": {
            "dollars": round(dollars(report.idle), 6),
            "causes": _causes(report),
        },
        "assumptions": list(ASSUMPTIONS),
    }


def report_table(document: JsonObject) -> str:
    """The report for a terminal."""
    parts = [_head(document), output.table(("", "DOLLARS", "AGAINST WHAT WAS SPENT"), _against(document))]
    for name, rows in document["by"].items():
        parts.append(output.table((name.upper(), "DOLLARS", "SHARE"), _shares(rows, document["dollars"])))
    causes = _cause_rows(document)
    if causes:
        parts.append(output.table(("IDLE $", "KEPT BY", "ABOVE ALL"), causes))
    parts.append(output.wrapped("\n".join(["how it is counted:", *document["assumptions"]])))
    return "\n\n".join(parts)


def report_markdown(document: JsonObject) -> str:
    """The report for a wiki or a pull request."""
    lines = [f"### {_head(document)}", ""]
    lines += markdown_table(("", "dollars", "against what was spent"), _against(document))
    for name, rows in document["by"].items():
        lines += ["", *markdown_table((name, "dollars", "share"), _shares(rows, document["dollars"]))]
    causes = _cause_rows(document)
    if causes:
        lines += ["", *markdown_table(("idle $", "kept by", "above all"), causes)]
    return "\n".join([*lines, "", *(f"- {assumed}" for assumed in document["assumptions"])]) + "\n"


def report_html(document: JsonObject) -> str:
    """The report as one page that loads nothing."""
    sections = [html_table(("", "dollars", "against what was spent"), _against(document))]
    for name, rows in document["by"].items():
        sections.append(html_table((name, "dollars", "share"), _shares(rows, document["dollars"])))
    causes = _cause_rows(document)
    if causes:
        sections.append(html_table(("idle $", "kept by", "above all"), causes))
    notes = ("How it is counted", document["assumptions"])
    return html_page("Fleetwright report", _head(document), sections, notes)


def report_csv(document: JsonObject) -> str:
    """One line for each name of each table."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("from", "to", "by", "name", "dollars"))
    for name, rows in document["by"].items():
        for key, part in rows.items():
            writer.writerow((document["from"], document["to"], name, key, f"{part:.6f}"))
    return text.getvalue()


def _causes(report: CostReport) -> list[JsonObject]:
    """By reason, the highest cost first; each with the sentences that cost most, which name the objects."""
    found: dict[str, list[JsonObject]] = {}
    for cause, part in report.causes:
        if part:
            entry = {"message": cause.message, "dollars": round(dollars(part), 6)}
            found.setdefault(cause.reason, []).append(entry)
    sums = {reason: round(sum(one["dollars"] for one in objects), 6) for reason, objects in found.items()}
    return [
        {"reason": reason, "dollars": sums[reason], "objects": found[reason][:OBJECTS_SHOWN]}
        for reason in sorted(found, key=lambda reason: (-sums[reason], reason))
    ]


def _cause_rows(document: JsonObject) -> list[tuple[str, str, str]]:
    return [
        (f"{cause['dollars']:,.4f}", cause["reason"], cause["objects"][0]["message"])
        for cause in document["idle"]["causes"]
    ]


def _minimum(report: CostReport) -> JsonObject | None:
    if report.minimum is None:
        return None
    return {
        "dollars": round(dollars(report.minimum), 6),
        "spentMeanwhile": round(dollars(report.minimum_cost), 6),
        "hours": round(report.minimum_over / timedelta(hours=1), 4),
    }


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
    rows = [("spent", f"{spent:,.4f}", "")]
    amounts: Iterable[tuple[str, float | None]] = (
        ("on demand", baselines["onDemand"]),
        ("without consolidation (played)", baselines["withoutConsolidation"]),
    )
    rows += [(name, f"{value:,.4f}", _relative(spent, value)) for name, value in amounts if value is not None]
    if minimum is not None:
        meant = f"of ${minimum['spentMeanwhile']:,.4f} in {minimum['hours']:,.2f} hours"
        rows.append(("proven minimum", f"{minimum['dollars']:,.4f}", meant))
    rows.append(("idle", f"{document['idle']['dollars']:,.4f}", _share(document["idle"]["dollars"], spent)))
    return rows


def _relative(spent: float, baseline: float) -> str:
    """We may be worse: then it says so."""
    if not baseline:
        return ""
    share = (baseline - spent) / baseline
    if abs(share) < _SAME:
        return "the same was spent"
    return f"{abs(share):.1%} {'less' if share >= 0 else 'MORE'} was spent"


def _shares(rows: dict[str, float], spent: float) -> list[tuple[str, str, str]]:
    return [(name, f"{part:,.4f}", _share(part, spent)) for name, part in rows.items()]


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else ""
