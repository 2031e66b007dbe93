"""Builds one row per command (decided, replaced, drained, gone, and why), per launch, and per other decision."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from cli.report.node_lifetimes import NodeLifetime
from cli.terminal.output import counted

_COMMAND: Final = re.compile(r"\bcommand (\w+)")
_FOLLOWED: Final = ("launch", "register", "initialize", "terminate", "drain", "forget", "interrupt", "disrupt")
"""Kinds of decisions that are parts of a chain: their outcome comes from the simulator's record."""

_VOLUNTARY: Final = ("Empty", "Underutilized")

Decision = Mapping[str, Any]


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """One row.

    Attributes:
        links: Time, label and details of each step, in order.
        nodes: Names of its nodes.
    """

    at: datetime
    what: str
    which: str
    reason: str
    why: str
    links: tuple[tuple[datetime, str, str], ...] = ()
    nodes: tuple[str, ...] = ()


def consolidated(lives: Iterable[NodeLifetime]) -> tuple[NodeLifetime, ...]:
    """Return the nodes that were removed because they were empty or underutilized."""
    return tuple(life for life in lives if life.reason in _VOLUNTARY and life.ended is not None)


def replacements(lives: Sequence[NodeLifetime], decisions: Sequence[Decision]) -> tuple[NodeLifetime, ...]:
    """Return the nodes that consolidation launched: their claims' names contain the command's id."""
    commands = {commands_by_claim(decisions).get(life.claim, "") for life in consolidated(lives)} - {""}
    return tuple(life for life in lives if _command_in(life.claim) in commands)


def commands_by_claim(decisions: Iterable[Decision]) -> dict[str, str]:
    """Return claim → the command that removed it."""
    found = {}
    for decision in decisions:
        match = _COMMAND.search(str(decision.get("message") or ""))
        if decision["kind"] == "terminate" and match:
            found[str(decision["subject"])] = match.group(1)
    return found


def chains(lives: Sequence[NodeLifetime], decisions: Sequence[Decision]) -> list[Chain]:
    """Return every row, in order of time."""
    commands = commands_by_claim(decisions)
    gone: dict[str, list[NodeLifetime]] = {}
    batches: dict[str, list[NodeLifetime]] = {}
    for life in lives:
        batches.setdefault(life.claim.rpartition("-")[0] or life.instance, []).append(life)
        if life.reason or life.ended is not None:
            gone.setdefault(commands.get(life.claim, "") or life.instance, []).append(life)
    replaced = {command: [life for life in lives if _command_in(life.claim) == command] for command in gone}
    rows = [_launch(batch) for batch in batches.values()]
    rows += [_end(together, replaced[command], decisions) for command, together in gone.items()]
    rows += [_other(decision) for decision in decisions if decision["kind"] not in _FOLLOWED]
    return sorted(rows, key=lambda row: (row.at, row.what, row.which))


def _launch(batch: Sequence[NodeLifetime]) -> Chain:
    first = batch[0]
    types = ", ".join(f"{life.instance_type} {life.capacity_type}" for life in batch)
    links = [(first.launched, "launched", types)]
    for word, moments in (("joined", [life.joined for life in batch]), ("ready", [life.ready for life in batch])):
        known = [moment for moment in moments if moment is not None]
        if known:
            links.append((max(known), word, f"{(max(known) - first.launched).total_seconds():.0f} s after the launch"))
    pods = len({pod for life in batch for pod in life.pods})
    hourly = sum(life.price for life in batch)
    of = first.pool or "no NodePool"
    return Chain(
        at=first.launched,
        what="launch",
        which=_names(batch),
        reason="",
        why=f"{counted(len(batch), 'node')} of {of}, ${hourly:.4f} an hour; {counted(pods, 'pod')} ran there",
        links=tuple(links),
        nodes=tuple(life.name for life in batch),
    )


def _end(together: Sequence[NodeLifetime], replaced: Sequence[NodeLifetime], decisions: Sequence[Decision]) -> Chain:
    nodes = {life.name for life in together}
    decided = [d for d in decisions if d["kind"] == "disrupt" and d["subject"] in nodes]
    links: list[tuple[datetime, str, str]] = [(d["at"], "decided", str(d.get("message") or "")) for d in decided[:1]]
    links += [(life.noticed, "notice", f"EC2 takes {life.name}") for life in together if life.noticed is not None]
    links += [(life.ready or life.launched, "replaced", f"{life.name}, {life.instance_type}") for life in replaced]
    tainted = [life.disrupted for life in together if life.disrupted is not None]
    links += [(min(tainted), "disrupted", "no new pods come")] if tainted else []
    evicted = [entry for life in together for entry in life.evicted]
    ended = [life.ended for life in together if life.ended is not None]
    last = max((moment for moment, _ in evicted), default=None)
    if last is not None:
        is_drained = not ended or last <= max(ended)
        links.append((last, "drained" if is_drained else "pods lost", counted(len(evicted), "pod")))
    links += [(max(ended), "gone", "")] if ended else []
    links.sort(key=lambda link: link[0])
    reason = next((life.reason for life in together if life.reason), "")
    saved = sum(life.price for life in together) - sum(life.price for life in replaced)
    taken = any(life.noticed for life in together)
    return Chain(
        at=links[0][0] if links else together[0].launched,
        what="interruption" if taken else "disruption",
        which=_names(together),
        reason=reason,
        why="EC2 takes the capacity back"
        if taken
        else f"{'saves' if saved >= 0 else 'costs'} ${abs(saved):.4f} an hour, {counted(len(evicted), 'pod')} moved",
        links=tuple(links),
        nodes=tuple(sorted(nodes)),
    )


def _other(decision: Decision) -> Chain:
    return Chain(
        at=decision["at"],
        what=str(decision["kind"]),
        which=str(decision["subject"]),
        reason=str(decision.get("reason") or ""),
        why="; ".join(str(decision.get("message") or "").splitlines()),
    )


def _names(found: Sequence[NodeLifetime]) -> str:
    return ", ".join(life.name for life in found)


def _command_in(claim: str) -> str:
    """Return the command in a claim's name: `general-f9a2a9a922-0` was launched by command f9a2a9a922."""
    parts = claim.rsplit("-", 2)
    return parts[1] if len(parts) == 3 else ""
