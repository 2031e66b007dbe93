"""Formats the status for people: first brakes and problems, then NodePools, then work in progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from cli.answers import money
from cli.answers.plan_table import prices_line
from cli.answers.proposal_document import proposals_table
from cli.cluster.organisation import unreadable_text
from cli.terminal import output
from cli.terminal.output import counted
from cli.terminal.style import style
from core.api.objects import JsonObject

_NAMED_MAX: Final = 3


def status_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format the status in groups; with `shows_all` every node, not only those that are starting or leaving."""
    parts = [
        _summary(document),
        _brakes(document),
        _pools(document),
        _proposals(document),
        _commands(document),
        _claims(document, shows_all=shows_all),
        _sweeps(document),
        prices_line(document),
    ]
    return "\n\n".join(part for part in parts if part)


def organisation_table(document: JsonObject) -> str:
    """Format one row per cluster, with its account if there are several, and below them what could not be read."""
    shows_account = len({found.get("account") for found in document["clusters"]}) > 1
    rows = [
        (
            found["cluster"],
            *([found.get("account") or "-"] if shows_account else []),
            found["region"] or "-",
            sum(pool["nodes"] for pool in found["nodePools"]),
            found["cost"]["hourly"],
            len(found["pendingPods"]),
            len(found["commands"] or ()),
            len(found["proposals"] or ()),
            ", ".join(sorted({brake["brake"] for brake in found["brakes"] or ()})) or "-",
        )
        for found in document["clusters"]
    ]
    headings = (
        "CLUSTER",
        *(["ACCOUNT"] if shows_account else []),
        "REGION",
        "NODES",
        "$/H",
        "WAITING PODS",
        "COMMANDS",
        "PROPOSALS",
        "BRAKES",
    )
    parts = [output.table(headings, rows), unreadable_text(document["unreadable"])]
    return "\n\n".join(filter(None, parts))


def status_names(document: JsonObject) -> str:
    """Return our nodes as kubectl names objects."""
    return "\n".join(f"node/{claim['node']}" for claim in document["claims"] if claim["node"])


def _summary(document: JsonObject) -> str:
    cost, waiting = document["cost"], document["pendingPods"]
    nodes = sum(pool["nodes"] for pool in document["nodePools"])
    name = f"cluster {document['cluster']}: " if document["cluster"] else ""
    share = f", {cost['spotHourly'] / cost['hourly']:.0%} of it spot" if cost["spotHourly"] else ""
    lines = [f"{style.styled(name + counted(nodes, 'node'), 'bold')}, {money.rate(cost['hourly'])}{share}"]
    if document["foreignNodes"]:
        lines.append(
            f"{counted(document['foreignNodes'], 'node')} besides that {_is_are(document['foreignNodes'])} not ours"
        )
    if waiting:
        lines.append(f"{counted(len(waiting), 'pod')} without a node: {output.several(waiting, _NAMED_MAX)}")
    return output.wrapped("\n".join(lines))


def _is_are(number: int) -> str:
    return "is" if number == 1 else "are"


def _brakes(document: JsonObject) -> str:
    """Return the engaged brakes; nothing if the functions' view was not read, since silence must not look like an all-clear."""
    if document["brakes"] is None:
        return ""
    lines = [
        f"{style.styled(brake['brake'], 'red')}: {brake['message']} (stops {', '.join(brake['stops'])})"
        for brake in document["brakes"]
    ]
    lines += [
        f"breaker of {b['nodePool']}: {counted(b['failures'], 'new node')} in a row did not join; {b['message']}"
        for b in document["breakers"]
        if not any(brake["nodePool"] == b["nodePool"] for brake in document["brakes"])
    ]
    return output.wrapped("\n".join(lines)) if lines else "no brake is engaged"


def _pools(document: JsonObject) -> str:
    rows = [
        (
            pool["name"],
            f"{pool['nodes']} ({pool['starting']} starting)" if pool["starting"] else str(pool["nodes"]),
            pool["pods"],
            pool["hourly"],
            _budgets(pool["budgets"]),
            output.several([f"{taker['node']} ({taker['why']})" for taker in pool["takenBy"]], _NAMED_MAX) or "-",
            _change(pool["nextWindow"]),
        )
        for pool in document["nodePools"]
    ]
    if not rows:
        return "there is no NodePool"
    notes = [
        f"{pool['name']}: {note}"
        for pool in document["nodePools"]
        for note in (pool["invalidBudget"], pool["paused"], pool["rollout"])
        if note
    ]
    headings = ("NODEPOOL", "NODES", "PODS", "$/H", "MAY GO", "PLACES TAKEN BY", "CHANGES")
    return "\n".join([output.table(headings, rows), *([output.wrapped("\n".join(notes))] if notes else [])])


def _budgets(budgets: Mapping[str, int | None]) -> str:
    """Return how many nodes may go now; reasons with the same number are joined."""
    numbers: dict[int | None, list[str]] = {}
    for reason, left in sorted(budgets.items()):
        numbers.setdefault(left, []).append(reason)
    return ", ".join(
        _number(left) if len(numbers) == 1 else f"{_number(left)} {'/'.join(reasons)}"
        for left, reasons in numbers.items()
    )


def _number(left: int | None) -> str:
    return "any" if left is None else str(left)


def _change(window: Mapping[str, Any] | None) -> str:
    return "-" if window is None else f"{_short(window['at'])}: {_budgets(window['allowed'])}"


def _proposals(document: JsonObject) -> str:
    if not document["proposals"]:
        return ""
    return f"{proposals_table(document['proposals'])}\n`fleetwright approve ID --cluster {document['cluster']}`"


def _commands(document: JsonObject) -> str:
    commands = document["commands"]
    if not commands:
        return ""
    rows = [
        (
            command["id"],
            command["phase"],
            f"{command['reason']} ({command['method']})",
            output.several(command["nodes"], _NAMED_MAX),
            output.several(command["replacements"], _NAMED_MAX) or "nothing",
            command["savings"],
            _short(command["since"]),
        )
        for command in commands
    ]
    headings = ("COMMAND", "PHASE", "WHY", "NODES THAT GO", "REPLACED BY", "SAVES $/H", "SINCE")
    return output.table(headings, rows)


def _claims(document: JsonObject, *, shows_all: bool) -> str:
    shown = [c for c in document["claims"] if shows_all or c["leavingSince"] or c["phase"] != "initialized"]
    rows = [
        (
            claim["name"],
            claim["node"] or "-",
            "/".join(part or "?" for part in (claim["instanceType"], claim["capacityType"], claim["zone"])),
            claim["hourly"],
            _state(claim),
            claim["message"] or "",
        )
        for claim in shown
    ]
    headings = ("NODECLAIM", "NODE", "TYPE", "$/H", "STATE", "LAST TROUBLE")
    return output.table(headings, rows) if rows else ""


def _state(claim: Mapping[str, Any]) -> str:
    if not claim["leavingSince"]:
        return str(claim["phase"])
    return f"leaves since {_short(claim['leavingSince'])}" + (
        f" [{claim['leavingWhy']}]" if claim["leavingWhy"] else ""
    )


def _sweeps(document: JsonObject) -> str:
    sweeps = document["sweeps"]
    if sweeps is None or sweeps["cleanAt"] is None:
        return ""
    failing: Sequence[Mapping[str, Any]] = sweeps["failing"]
    if not failing:
        return f"reconcile: everything was in order, last written down {_short(sweeps['cleanAt'])}"
    lines = [
        f"reconcile: {found['name']} fails since {_short(found['cleanAt'])} ({counted(found['failures'], 'round')}): "
        f"{found['reason']}"
        for found in failing
    ]
    return output.wrapped(style.styled("\n".join(lines), "red"))


def _short(moment: str) -> str:
    """Format a time to the minute, UTC."""
    return f"{datetime.fromisoformat(moment):%m-%d %H:%M}"
