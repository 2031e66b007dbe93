"""Formats a disruption plan for people: what it saves, which nodes go, why the others stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli import money, output
from cli.output import JsonObject, counted
from cli.plan_table import prices_line
from cli.reason_page import pages_lines
from cli.search_time import brake_line
from cli.style import style

_NAMED_MAX: Final = 3
"""Most names of a group without `--all`."""
_MESSAGES_MAX: Final = 3
"""Messages of one code that are shown one by one without `--all`."""


def disruption_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format the summary, the commands in order with full node names, and what keeps the other nodes, in groups."""
    parts = [
        _summary(document),
        _commands(document["commands"]),
        _blocked(document["blocked"], shows_all=shows_all),
        _budgets(document["budgets"]),
        brake_line(document.get("timing", {}).get("stoppedBy")),
        prices_line(document),
    ]
    return "\n\n".join(part for part in parts if part)


def disruption_names(document: JsonObject) -> str:
    """The nodes that go, as kubectl names objects."""
    return "\n".join(f"node/{node}" for command in document["commands"] for node in command["nodes"])


def _summary(document: JsonObject) -> str:
    cost, commands = document["cost"], document["commands"]
    going = sum(len(command["nodes"]) for command in commands)
    coming = sum(len(command["replacements"]) for command in commands)
    if not going:
        return f"{style.painted('no node goes', 'bold')}; {money.rate(cost['before'])}{_bound(cost['before'], cost)}"
    moved = len({move["pod"] for command in commands for move in command["moves"]})
    head = f"{counted(going, 'node')} {'goes' if going == 1 else 'go'}, {coming or 'none'} {'comes' if coming < 2 else 'come'}"
    saved = cost["before"] - cost["after"]
    share = f", {abs(saved) / cost['before']:.0%}" if cost["before"] else ""
    word = "saves" if saved >= 0 else "costs"
    painted = style.painted(
        f"{word} ${abs(saved):,.4f} an hour, ${money.a_month(abs(saved)):,.0f} a month{share}{_payback(commands)}",
        "green",
    )
    return (
        f"{style.painted(head, 'bold')}, {counted(moved, 'pod')} {'moves' if moved == 1 else 'move'}: {painted}\n"
        f"${cost['before']:,.4f} an hour before, ${cost['after']:,.4f} after{_bound(cost['after'], cost)}"
    )


def _payback(commands: Sequence[JsonObject]) -> str:
    """When the savings of the last command have paid for its move."""
    minutes = max((command["paybackMinutes"] or 0 for command in commands), default=0)
    return f"; each command pays for itself within {counted(minutes, 'minute')}" if minutes else ""


def _bound(hourly: float, cost: Mapping[str, Any]) -> str:
    distance = money.distance(hourly, cost["lowerBound"])
    return f"; {distance}" if distance else ""


def _commands(commands: Sequence[JsonObject]) -> str:
    """Return one line for each node that goes; the first line of a command describes it."""
    rows: list[tuple[object, ...]] = []
    waves = any("wave" in command for command in commands)
    for command in commands:
        replaced = (
            output.several([f"{c['name']} ({c['instanceTypes'][0]})" for c in command["replacements"]]) or "nothing"
        )
        about = (f"{command['reason']} ({command['method']})", replaced, len(command["moves"]), command["savings"])
        first = (str(command["wave"]), *about) if waves else about
        empty = ("",) * len(first)
        rows += [(node, *(empty if number else first)) for number, node in enumerate(command["nodes"])]
    about_headings = ("WHY", "REPLACED BY", "PODS", "SAVES $/H")
    headings = ("NODE THAT GOES", *(("WAVE", *about_headings) if waves else about_headings))
    return output.table(headings, rows, whole=(0,)) if rows else ""


def _blocked(blocked: Sequence[Mapping[str, str]], *, shows_all: bool) -> str:
    """Nodes that stay for the same reason share an entry; in the short form also those whose reasons name different pods."""
    groups: dict[tuple[str, str], list[str]] = {}
    for found in blocked:
        groups.setdefault((found["reason"], found["message"].replace(found["node"], "it")), []).append(found["node"])
    if not shows_all:
        groups = _joined(groups)
    paragraphs = []
    for (reason, message), nodes in groups.items():
        named = output.several(nodes, len(nodes) if shows_all else _NAMED_MAX)
        head = f"{nodes[0]} stays" if len(nodes) == 1 else f"{len(nodes)} nodes stay"
        lines = [f"{head} [{reason}]: {message}", *([f"  {named}"] if len(nodes) > 1 else [])]
        paragraphs.append(output.wrapped("\n".join(lines)))
    pages = pages_lines(reason for reason, _ in groups)
    return "\n".join([*paragraphs, *([pages] if pages else [])])


def _joined(groups: Mapping[tuple[str, str], list[str]]) -> dict[tuple[str, str], list[str]]:
    """The same with more than a few messages of one code in one entry."""
    by_reason: dict[str, list[str]] = {}
    for reason, message in groups:
        by_reason.setdefault(reason, []).append(message)
    found: dict[tuple[str, str], list[str]] = {}
    for (reason, message), nodes in groups.items():
        told = by_reason[reason]
        key = (reason, message if len(told) <= _MESSAGES_MAX else f"{told[0]}, and {len(told) - 1} more such reasons")
        found.setdefault(key, []).extend(nodes)
    return found


def _budgets(budgets: Mapping[str, Mapping[str, int | None]]) -> str:
    """How many nodes may go now; reasons with the same number share it."""
    pools = []
    for pool, by_reason in sorted(budgets.items()):
        numbers: dict[int | None, list[str]] = {}
        for reason, left in sorted(by_reason.items()):
            numbers.setdefault(left, []).append(reason)
        parts = [
            _number(left) if len(numbers) == 1 else f"{_number(left)} for {', '.join(reasons)}"
            for left, reasons in numbers.items()
        ]
        pools.append(f"{pool} {', '.join(parts)}")
    return style.painted(output.wrapped(f"budgets before these commands: {'; '.join(pools)}"), "dim") if pools else ""


def _number(left: int | None) -> str:
    return "unlimited" if left is None else str(left)
