"""A period's report for people: text, Markdown, HTML, CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from typing import Final

from cli.answers.written_tables import html_page, html_table, markdown_table
from cli.terminal import output
from cli.terminal.output import counted
from core.api.objects import JsonObject

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


def _share(part: float, whole: float) -> str:
    return f"{part / whole:.1%}" if whole else ""
