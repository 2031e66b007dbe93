"""Compares two plans: the answer of `fleetwright diff` for programs, terminals and pull requests."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

import msgspec

from cli.answers.money import a_month, cents
from cli.answers.plan_document import API_VERSION, rfc3339
from cli.answers.plan_table import prices_line
from cli.answers.written_tables import markdown_text
from cli.reason_page import reason_page
from cli.terminal import output
from core.api.objects import JsonObject
from core.difference import newly_drifted
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.model.values.quantity import dollars
from core.reasons.drift import DriftReason
from core.reasons.node import NodeReason

_NAMED_MAX: Final = 10
"""Most names of a list in a table; the JSON has all."""


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One side of the comparison; `hourly` is the cost of running and new nodes, in nano-dollars per hour."""

    snapshot: Snapshot
    plan: Plan
    hourly: int
    prices: JsonObject


def difference_document(before: Side, after: Side) -> JsonObject:
    """Return `kind: Difference`. A pod is lost if it has no place after the change, and had one before or is new."""
    earlier, later = _unplaced(before), _unplaced(after)
    present = {pod.key for pod in after.snapshot.pods}
    reasons = {found.pod: found for found in after.plan.unschedulable}
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
            {"node": found.node, "nodePool": found.node_pool, "reason": str(found.reason)}
            for found in newly_drifted(before.snapshot, after.snapshot)
        ],
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
    rows = [(what, before, after, change) for what, before, after, change in _rows(document)]
    table = output.table(("", "BEFORE", "AFTER", "CHANGE"), rows)
    return "\n\n".join(part for part in (table, *_details(document), prices_line(document)) if part)


def as_markdown(document: JsonObject) -> str:
    """Format the difference as a comment on a pull request."""
    lines = ["### Fleetwright: what this change does", "", "| | before | after | |", "| --- | ---: | ---: | --- |"]
    lines += [f"| {what} | {before} | {after} | {change} |" for what, before, after, change in _rows(document)]
    for found in _details(document):
        heading, *rest = found.splitlines()
        lines += ["", f"**{heading}**", "", *(f"- {markdown_text(line)}" for line in rest)]
    return "\n".join(lines)


def _unplaced(side: Side) -> set[str]:
    return {found.pod for found in side.plan.unschedulable}


def _side(side: Side) -> JsonObject:
    running = sum(state.is_managed for state in state_nodes(side.snapshot))
    return {
        "hourly": dollars(side.hourly),
        "monthly": cents(a_month(dollars(side.hourly))),
        "nodes": running + len(side.plan.claims),
        "unschedulable": sorted(_unplaced(side)),
    }


def _rows(document: JsonObject) -> list[tuple[str, str, str, str]]:
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
    found = []
    for field, change in (("podsLost", "left without a place"), ("podsGained", "given a place")):
        pods = document[field]
        if pods:
            shown = [f"  {pod}{_reason(document, pod)}" for pod in pods[:_NAMED_MAX]]
            found.append("\n".join([f"{output.counted(len(pods), 'pod')} {change}", *shown, *_more(len(pods))]))
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
        found.append("\n".join([heading, *lines, *names, *_more(len(document["nodesDrifted"]))]))
    return found


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
