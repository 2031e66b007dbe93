"""The shadow report for people: text, Markdown, HTML."""

from __future__ import annotations

from typing import Any, Final

from cli.answers.written_tables import html_page, html_table, markdown_table
from cli.terminal import output
from cli.terminal.output import counted
from core.api.objects import JsonObject

_HEADINGS: Final = ("", "KARPENTER DID", "WE WOULD HAVE", "DIFFERENCE")


def shadow_table(document: JsonObject) -> str:
    """Format the report for a terminal."""
    parts = [output.wrapped(_head(document)), output.table(_HEADINGS, _rows(document)), _worse_text(document)]
    return "\n\n".join([*parts, output.wrapped("\n".join(["assumed:", *document["assumptions"]]))])


def shadow_markdown(document: JsonObject) -> str:
    """Format the report for a wiki."""
    lines = ["### Fleetwright beside Karpenter", "", _head(document), ""]
    lines += markdown_table([heading.capitalize() for heading in _HEADINGS], _rows(document))
    lines += ["", "Where we would have been worse:", "", *(f"- {found}" for found in _worse_lines(document))]
    return "\n".join([*lines, "", "Assumed:", "", *(f"- {assumed}" for assumed in document["assumptions"])]) + "\n"


def shadow_html(document: JsonObject) -> str:
    """Format the report as one self-contained page."""
    sections = [html_table([heading.capitalize() for heading in _HEADINGS], _rows(document))]
    sections.append(html_table(("where we would have been worse",), [(found,) for found in _worse_lines(document)]))
    notes = ("Assumed", document["assumptions"])
    return html_page("Fleetwright beside Karpenter", _head(document), sections, notes)


def _head(document: JsonObject) -> str:
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


def _rows(document: JsonObject) -> list[tuple[str, str, str, str]]:
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
    for found in document["worse"]:
        named = f": {', '.join(found['pods'])}" if found["pods"] else ""
        lines.append(f"{found['message']}{named}")
    return lines or ["nowhere, in what is compared here"]


def _worse_text(document: JsonObject) -> str:
    return output.wrapped("\n".join(["where we would have been worse:", *_worse_lines(document)]))
