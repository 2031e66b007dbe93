"""The answers of `adopt` and `release` for people."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Final

from cli.terminal import output
from cli.terminal.output import counted
from core.api.objects import JsonObject

_COLUMNS: Final = {
    "STATE": "state",
    "SUBJECT": "subject",
    "NODE": "node",
    "INSTANCE": "instance",
    "TYPE": "instanceType",
    "NODEPOOL": "nodePool",
    "DRIFT": "drift",
}
_WIDE_ALONE: Final = ("INSTANCE", "TYPE")
"""Columns that make rows longer than a line, and that nobody needs to decide."""
_OURS: Final = "ours"


def adoption_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format the nodes that can be adopted, those that cannot and why, and the next steps."""
    said = [_reasons(document, shows_all=shows_all), _next_of_adoption(document)]
    parts = [_rows(document, shows_all=shows_all), *(output.wrapped(part) for part in said)]
    return "\n\n".join(part for part in parts if part)


def release_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format the nodes that can be released, those that cannot and why, and the next steps."""
    said = [_reasons(document, shows_all=shows_all), _next_of_release(document)]
    parts = [_rows(document, shows_all=shows_all), *(output.wrapped(part) for part in said)]
    return "\n\n".join(part for part in parts if part)


all_of_adoption = partial(adoption_table, shows_all=True)
all_of_release = partial(release_table, shows_all=True)


def subject_names(document: JsonObject) -> str:
    """Return the objects as kubectl names them."""
    return "\n".join(item["subject"].lower() for item in document["items"])


def _rows(document: JsonObject, *, shows_all: bool) -> str:
    items = [item for item in document["items"] if shows_all or item["state"] != _OURS]
    items = [*items, *document.get("nodeClasses", ())]
    columns = {
        heading: key
        for heading, key in _COLUMNS.items()
        if (shows_all or heading not in _WIDE_ALONE) and any(item.get(key) for item in items)
    }
    rows = [tuple(item.get(key, "") for key in columns.values()) for item in items]
    return output.table(tuple(columns), rows) if rows else ""


def _reasons(document: JsonObject, *, shows_all: bool) -> str:
    """Return the reasons, each once with the objects that it is about: the first of them, or all."""
    subjects: dict[str, list[str]] = {}
    for item in (*document["items"], *document.get("nodeClasses", ())):
        if item.get("message"):
            reason = f"{item['reason']}: " if item.get("reason") else ""
            subjects.setdefault(f"{reason}{item['message']}", []).append(item["subject"])
    named = ", ".join if shows_all else output.several
    return "\n".join(f"{named(found)}: {reason}" for reason, found in subjects.items())


def _summary(document: JsonObject) -> str:
    counts = Counter(item["state"] for item in document["items"])
    return ", ".join(f"{number} {state}" for state, number in sorted(counts.items()))


def _hindrances(document: JsonObject) -> list[str]:
    return [f"Not now: {text}." for text in document["hindrances"]]


def _run(document: JsonObject) -> str:
    return "Then run" if document["hindrances"] else "Run"


def _next_of_adoption(document: JsonObject) -> str:
    cluster, states = document["cluster"], Counter(item["state"] for item in document["items"])
    lines = [_summary(document) or "No node of Karpenter's was found."]
    if states[_OURS] and states[_OURS] == states.total():
        lines.append("There is nothing left to adopt.")
    drifted = sum(1 for item in document["items"] if item["drift"])
    if drifted:
        lines.append(
            f"{counted(drifted, 'node')} of them count as drifted for us: their NodePools' budgets say when they are replaced."
        )
    lines += _hindrances(document)
    waiting = states["adoptable"] + states["begun"]
    if not document["acting"] and waiting:
        lines.append(
            f"{_run(document)} `fleetwright adopt --cluster {cluster} --yes` to adopt {counted(waiting, 'node')}."
        )
    elif waiting and document["hindrances"]:
        lines.append("Nothing was changed.")
    elif waiting or states["failed"]:
        lines.append("The rest is unchanged: run the command again.")
    elif document["acting"]:
        lines.append(f"`fleetwright resume --cluster {cluster}` lets the functions manage them.")
    return "\n".join(lines)


def _next_of_release(document: JsonObject) -> str:
    cluster, states = document["cluster"], Counter(item["state"] for item in document["items"])
    lines = [_summary(document) or "No node is Fleetwright's: there is nothing to release."]
    if document["commands"]:
        lines.append(f"{counted(document['commands'], 'command')} of disruption under way: dropped with the release.")
    lines += _hindrances(document)
    left = sum(states.values()) - states["released"]
    if not document["acting"] and states["releasable"]:
        nodes = counted(states["releasable"], "node")
        lines.append(
            f"{_run(document)} `fleetwright release --cluster {cluster} --yes` to release {nodes} to Karpenter."
        )
    elif document["acting"] and left:
        lines.append("Do not start Karpenter yet: it terminates instances with its tags that have no NodeClaim.")
    elif document["acting"]:
        lines.append("Now start Karpenter, and remove the stacks once its NodeClaims are Ready.")
    return "\n".join(lines)
