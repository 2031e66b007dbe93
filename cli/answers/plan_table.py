"""Formats a plan for people: the summary first, then new nodes, then pods without a place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from cli.answers import money
from cli.reason_page import pages_lines
from cli.search_time import time_limit_line
from cli.terminal import output
from cli.terminal.output import counted
from cli.terminal.style import style
from core.api.objects import JsonObject

_ROWS_MAX: Final = 10
"""Rows of a part that are shown without `--all`."""


def plan_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format the plan in groups; with `shows_all` every node, every pod and every NodePool's finding."""
    return _answer(document, _new_nodes(document, shows_all=shows_all), shows_all=shows_all)


def plan_wide(document: JsonObject) -> str:
    """Format every new node with all columns, and the rest as with `--all`."""
    return _answer(document, _each_node(document), shows_all=True)


def plan_names(document: JsonObject) -> str:
    """Return the nodes to launch as kubectl names objects."""
    return "\n".join(f"nodeclaim.karpenter.sh/{claim['name']}" for claim in document["nodeClaims"])


def _answer(document: JsonObject, new_nodes: str, *, shows_all: bool) -> str:
    """Return the non-empty parts, in order."""
    parts = [
        _summary(document),
        new_nodes,
        _existing(document, shows_all=shows_all),
        _buffers(document),
        _unplaced(document, shows_all=shows_all),
        time_limit_line(document.get("timing", {}).get("stoppedBy")),
        prices_line(document),
    ]
    return "\n\n".join(part for part in parts if part)


def prices_line(document: JsonObject) -> str:
    """Return the source of prices and their age."""
    found = document.get("prices")
    if not found:
        return ""
    place = " of ".join(part for part in (found["region"], found["date"]) if part)
    unit = money.other_currency(found["region"])
    shown = f"in {unit}, shown as $" if unit else ""
    return style.styled(f"prices: {', '.join(part for part in (place, found['source'], shown) if part)}", "dim")


def _summary(document: JsonObject) -> str:
    claims, bindings, lost = document["nodeClaims"], document["bindings"], document["unschedulable"]
    launched = sum(len(claim["pods"]) for claim in claims)
    waiting = launched + len(bindings) + len(lost)
    if not waiting and not claims:
        return style.styled("no pod waits", "bold")
    parts = [style.styled(f"{counted(waiting, 'pod')} {_verb(waiting, 'wait')}", "bold")]
    if launched:
        parts.append(f"{launched} {_verb(launched, 'get')} {counted(len(claims), 'new node')}")
    if bindings:
        parts.append(f"{len(bindings)} {_verb(len(bindings), 'fit')} on {_existing_count(bindings)}")
    if lost:
        parts.append(style.styled(f"{len(lost)} {_verb(len(lost), 'have')} no place", "red", "bold"))
    text = "; ".join([": ".join(parts[:2]), *parts[2:]])
    return f"{text}\n{_cost(document)}" if claims else text


def _cost(document: JsonObject) -> str:
    cost = document["cost"]
    bound, spot = money.distance(cost["hourly"], cost["lowerBound"]), cost.get("spotHourly", 0)
    share = f", {spot / cost['hourly']:.0%} of it spot" if spot else ""
    parts = (f"{money.rate(cost['hourly'])}{share}", bound, _covered(document["nodeClaims"]))
    return output.wrapped("; ".join(part for part in parts if part))


def _covered(claims: Sequence[JsonObject]) -> str:
    """Return how many new nodes each commitment covers, empty without commitments."""
    counts = Counter(claim["commitment"] for claim in claims if "commitment" in claim)
    return ", ".join(f"{name} covers {counted(count, 'new node')}" for name, count in sorted(counts.items()))


def _existing_count(bindings: Sequence[Mapping[str, Any]]) -> str:
    return counted(len({binding["node"] for binding in bindings}), "existing node")


def _verb(count: int, verb: str) -> str:
    """Return the verb in the singular or plural."""
    if count != 1:
        return verb
    return "has" if verb == "have" else f"{verb}s"


def _new_nodes(document: JsonObject, *, shows_all: bool) -> str:
    """Return one row for nodes that differ only in names, zones and pods."""
    groups: dict[tuple[object, ...], list[JsonObject]] = {}
    for number, claim in enumerate(document["nodeClaims"]):
        alike = (claim["nodePool"], tuple(claim["instanceTypes"]), _capacity(claim), claim["price"])
        groups.setdefault((number,) if shows_all else alike, []).append(claim)
    rows = [_group(claims) for claims in groups.values()]
    headings = ("NEW NODES", "INSTANCE TYPE", "ZONES", "CAPACITY", "PODS", "$/H EACH")
    table = output.table(headings, rows) if rows else ""
    if not shows_all:
        return table
    pods = [(claim["name"], output.several(claim["pods"], len(claim["pods"]))) for claim in document["nodeClaims"]]
    return f"{table}\n\n{output.table(('NEW NODE', 'ITS PODS'), pods)}" if pods else table


def _group(claims: Sequence[JsonObject]) -> tuple[object, ...]:
    first = claims[0]
    name = first["name"] if len(claims) == 1 else f"{len(claims)} x {first['nodePool']}"
    others = len(first["instanceTypes"]) - 1
    types = first["instanceTypes"][0] + (f" (or {counted(others, 'other')})" if others else "")
    zones = sorted({zone for claim in claims for zone in claim["zones"]})
    counts = sorted({len(claim["pods"]) for claim in claims})
    pods = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return name, types, zones[0] if len(zones) == 1 else f"{len(zones)} zones", _capacity(first), pods, first["price"]


def _capacity(claim: JsonObject) -> str:
    """Return the capacity types, with the commitment that covers the node."""
    kinds = output.several(claim["capacityTypes"])
    return f"{kinds} ({claim['commitment']})" if "commitment" in claim else kinds


def _each_node(document: JsonObject) -> str:
    rows = [
        (
            claim["name"],
            output.several(claim["instanceTypes"], 1),
            output.several(claim["zones"], 1),
            _capacity(claim),
            claim["resources"].get("cpu", "0"),
            claim["resources"].get("memory", "0"),
            len(claim["pods"]),
            claim["price"],
        )
        for claim in document["nodeClaims"]
    ]
    headings = ("NEW NODE", "INSTANCE TYPES", "ZONES", "CAPACITY", "CPU", "MEMORY", "PODS", "$/H")
    return output.table(headings, rows) if rows else ""


def _existing(document: JsonObject, *, shows_all: bool) -> str:
    by_node: dict[str, list[str]] = {}
    for binding in document["bindings"]:
        by_node.setdefault(binding["node"], []).append(binding["pod"])
    shown = None if shows_all else 3
    rows = [(node, len(pods), output.several(pods, shown or len(pods))) for node, pods in sorted(by_node.items())]
    return _limited(("EXISTING NODE", "COUNT", "PODS"), rows, shows_all=shows_all)


def _limited(headings: Sequence[str], rows: Sequence[Sequence[object]], *, shows_all: bool) -> str:
    if not rows:
        return ""
    left = 0 if shows_all else max(0, len(rows) - _ROWS_MAX)
    table = output.table(headings, rows[: len(rows) - left])
    return f"{table}\n{style.styled(f'and {left} more: --all', 'dim')}" if left else table


def _buffers(document: JsonObject) -> str:
    rows = [
        (room["buffer"], room["onExistingNodes"], room["onNewNodes"], room["withoutRoom"])
        for room in document.get("buffers", ())
    ]
    return output.table(("CAPACITY BUFFER", "ROOM ON EXISTING", "ON NEW NODES", "NO ROOM"), rows) if rows else ""


def _unplaced(document: JsonObject, *, shows_all: bool) -> str:
    """Group unplaced pods by code and nearest miss."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for found in document["unschedulable"]:
        by_reason.setdefault((found["reason"], found["message"]), []).append(found["pod"])
    entries = [
        _entry(pods, reason, message.splitlines(), shows_all=shows_all) for (reason, message), pods in by_reason.items()
    ]
    if not entries:
        return ""
    left = 0 if shows_all else max(0, len(entries) - _ROWS_MAX)
    more = [style.styled(f"and {left} more reasons: --all", "dim")] if left else []
    first = min(found["pod"] for found in document["unschedulable"])
    text = output.wrapped(f"every NodePool's reason: --all, or fleetwright explain {first}")
    hint = [] if shows_all else [style.styled(text, "dim")]
    pages = pages_lines(reason for reason, _ in by_reason)
    return "\n".join([*entries[: len(entries) - left], *more, *hint, pages])


def _entry(pods: Sequence[str], reason: str, lines: Sequence[str], *, shows_all: bool) -> str:
    named = pods[0] if len(pods) == 1 else f"{len(pods)} pods ({output.several(pods, len(pods) if shows_all else 3)})"
    head = f"no place for {named} [{reason}]"
    parts = output.wrapped("\n".join([head, *(f"  {line}" for line in _kept(lines, shows_all=shows_all))]))
    return parts.replace("no place", style.styled("no place", "red"), 1)


def _kept(lines: Sequence[str], *, shows_all: bool) -> Iterable[str]:
    return lines if shows_all else lines[:1]
