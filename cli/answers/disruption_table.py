"""Formats a disruption plan for people: what it saves, which nodes go, why the others stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from cli.answers import money
from cli.answers.plan_table import prices_line
from cli.reason_page import pages_lines
from cli.search_time import time_limit_line
from cli.terminal import output
from cli.terminal.output import counted
from cli.terminal.style import style
from core.api.objects import JsonObject

_NAMED_MAX: Final = 3
"""Most names of a group without `--all`."""
_MESSAGES_MAX: Final = 3
"""The most messages of one code that are shown individually without `--all`."""


def disruption_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format the summary, the commands in order with full node names, and what keeps the other nodes, in groups."""
    parts = [
        _summary(document),
        _commands(document["commands"]),
        _blocked(document["blocked"], shows_all=shows_all),
        _budgets(document["budgets"], has_commands=bool(document["commands"])),
        time_limit_line(document.get("timing", {}).get("stoppedBy")),
        prices_line(document),
    ]
    return "\n\n".join(part for part in parts if part)


def disruption_names(document: JsonObject) -> str:
    """Return the leaving nodes as kubectl names objects."""
    return "\n".join(f"node/{node}" for command in document["commands"] for node in command["nodes"])


def _summary(document: JsonObject) -> str:
    cost, commands = document["cost"], document["commands"]
    going = sum(len(command["nodes"]) for command in commands)
    coming = sum(len(command["replacements"]) for command in commands)
    if not going:
        return f"{style.styled('no node goes', 'bold')}; {money.rate(cost['before'])}{_bound(cost['before'], cost)}"
    moved = len({move["pod"] for command in commands for move in command["moves"]})
    head = f"{counted(going, 'node')} {'goes' if going == 1 else 'go'}, {coming or 'none'} {'comes' if coming < 2 else 'come'}"
    saved = cost["before"] - cost["after"]
    share = f", {abs(saved) / cost['before']:.0%}" if cost["before"] else ""
    word = "saves" if saved >= 0 else "costs"
    styled = style.styled(
        f"{word} ${abs(saved):,.4f} an hour, ${money.a_month(abs(saved)):,.0f} a month{share}{_payback(commands)}",
        "green",
    )
    return (
        f"{style.styled(head, 'bold')}, {counted(moved, 'pod')} {'moves' if moved == 1 else 'move'}: {styled}\n"
        f"${cost['before']:,.4f} an hour before, ${cost['after']:,.4f} after{_bound(cost['after'], cost)}"
    )


def _payback(commands: Sequence[JsonObject]) -> str:
    """Return the longest time after which a command's savings have paid for its move."""
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
    return output.table(headings, rows) if rows else ""


def _blocked(blocked: Sequence[Mapping[str, str]], *, shows_all: bool) -> str:
    """Return one entry for all nodes that stay for the same reason; in the short form, even if it names different pods."""
    by_code: dict[str, dict[str, list[str]]] = {}
    for found in blocked:
        by_code.setdefault(found["reason"], {}).setdefault(_of_it(found["message"], found["node"]), []).append(
            found["node"]
        )
    paragraphs = []
    for reason, by_message in by_code.items():
        if shows_all or len(by_message) <= _MESSAGES_MAX:
            paragraphs += [_alike(reason, *entry, shows_all=shows_all) for entry in by_message.items()]
        else:
            paragraphs.append(_such_as(reason, by_message))
    more = [] if shows_all or not blocked else [f"every node: --all, or fleetwright explain {blocked[0]['node']}"]
    return "\n".join([*(output.wrapped(paragraph) for paragraph in paragraphs), *more, pages_lines(by_code)]).rstrip()


def _of_it(message: str, node: str) -> str:
    """Return the message with `it` in place of the node's name, so that several nodes can share it."""
    return message.replace(f"node {node}", "it").replace(node, "it")


def _alike(reason: str, message: str, nodes: Sequence[str], *, shows_all: bool) -> str:
    if len(nodes) == 1:
        return f"{nodes[0]} stays [{reason}]: {message}"
    named = output.several(nodes, len(nodes) if shows_all else _NAMED_MAX)
    return f"{len(nodes)} nodes stay [{reason}]: {message}\n  {named}"


def _such_as(reason: str, by_message: Mapping[str, Sequence[str]]) -> str:
    """Return one entry for all nodes of a code, with the message of the first."""
    first, *rest = (node for nodes in by_message.values() for node in nodes)
    named = output.several(rest, _NAMED_MAX)
    return f"{len(rest) + 1} nodes stay [{reason}], such as {first}: {next(iter(by_message))}\n  {named}"


def _budgets(budgets: Mapping[str, Mapping[str, int | None]], *, has_commands: bool) -> str:
    """Return how many nodes of each NodePool may go now; reasons with the same number are joined."""
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
    if not pools:
        return ""
    when = "before these commands" if has_commands else "now"
    return style.styled(output.wrapped(f"nodes that NodePools' budgets let go {when}: {'; '.join(pools)}"), "dim")


def _number(left: int | None) -> str:
    return "any number" if left is None else str(left)
