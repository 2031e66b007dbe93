"""Turns the record's events into lines over time: pods pending, nodes by capacity type, dollars per hour."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from cli.terminal.output import counted
from core.model.values.quantity import dollars, nanodollars

POINTS_MAX = 1200
Events = Sequence[tuple[datetime, str, Mapping[str, Any]]]
"""The record: moment, event, fields."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Step lines on one time axis: the value at index i holds from `times[i]` on.

    Attributes:
        nodes: Capacity type → how many instances run.
        hourly: Dollars per hour of all running instances.
        kept: The same without consolidation: with the nodes that it removed, and without those that it launched.
        spent: Dollars spent so far.
    """

    times: tuple[datetime, ...]
    pending: tuple[int, ...]
    nodes: dict[str, tuple[int, ...]]
    hourly: tuple[float, ...]
    kept: tuple[float, ...]
    spent: tuple[float, ...]


class _Running:
    """Running totals of the events so far; money in nano-dollars."""

    def __init__(self, consolidated: Collection[str], replacements: Collection[str]) -> None:
        self.pending: set[str] = set()
        self.running: dict[str, tuple[str, int]] = {}
        self.kept: dict[str, int] = {}
        self._consolidated = consolidated
        self._replacements = replacements

    def take(self, event: str, fields: Mapping[str, Any]) -> None:
        if event == "podCreated" and not str(fields.get("owner") or "").startswith("DaemonSet/"):
            self.pending.add(fields["pod"])
        elif event in ("podBound", "podDeleted", "podFinished"):
            self.pending.discard(fields["pod"])
        elif event == "instanceLaunched":
            price = nanodollars(fields["price"])
            self.running[fields["instance"]] = (str(fields.get("capacityType") or "on-demand"), price)
            if fields["instance"] not in self._replacements:
                self.kept[fields["instance"]] = price
        elif event == "instanceTerminated":
            self.running.pop(fields["instance"], None)
            if fields["instance"] not in self._consolidated:
                self.kept.pop(fields["instance"], None)

    def by_capacity_type(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for capacity_type, _ in self.running.values():
            counts[capacity_type] = counts.get(capacity_type, 0) + 1
        return counts

    def price(self) -> int:
        return sum(price for _, price in self.running.values())


def from_events(
    events: Iterable[tuple[datetime, str, Mapping[str, Any]]],
    consolidated: Collection[str] = (),
    replacements: Collection[str] = (),
) -> Series:
    """Sum up the events. Of changes closer together than a pixel, the last one is kept; for pending pods, the peak.

    Args:
        events: The record.
        consolidated: Instances that ended because nodes were empty or underutilized.
        replacements: Instances that were launched in place of such nodes.
    """
    ordered = list(events)
    state, rows = _Running(consolidated, replacements), list[tuple[datetime, int, dict[str, int], int, int, int]]()
    spacing = (ordered[-1][0] - ordered[0][0]) / POINTS_MAX if ordered else timedelta(0)
    spent, last = 0, ordered[0][0] if ordered else None
    for at, event, fields in ordered:
        spent += state.price() * round((at - (last or at)).total_seconds()) // 3600
        last = at
        state.take(event, fields)
        row = (at, len(state.pending), state.by_capacity_type(), state.price(), sum(state.kept.values()), spent)
        if rows and at - rows[-1][0] < spacing:
            rows[-1] = (rows[-1][0], max(rows[-1][1], row[1]), *row[2:])
        else:
            rows.append(row)
    capacity_types = sorted({name for row in rows for name in row[2]})
    return Series(
        times=tuple(row[0] for row in rows),
        pending=tuple(row[1] for row in rows),
        nodes={name: tuple(row[2].get(name, 0) for row in rows) for name in capacity_types},
        hourly=tuple(dollars(row[3]) for row in rows),
        kept=tuple(dollars(row[4]) for row in rows),
        spent=tuple(dollars(row[5]) for row in rows),
    )


# The lifetime of every node: launched, ready, disrupted, gone, and its pods.


class NodeLifetime:
    """One instance and its node, from launch to end; events that did not happen are None or empty.

    Attributes:
        reason: Why it was disrupted, a code of `core.reasons`.
        pods: Pods that were bound to it, DaemonSets' left out, in order; `evicted` those of them that were evicted.
    """

    def __init__(self, at: datetime, fields: Mapping[str, Any]) -> None:
        self.launched = at
        self.instance: str = fields["instance"]
        self.instance_type = str(fields.get("instanceType") or "")
        self.zone = str(fields.get("zone") or "")
        self.capacity_type = str(fields.get("capacityType") or "on-demand")
        self.price = float(fields.get("price") or 0)
        self.pool = str((fields.get("tags") or {}).get("karpenter.sh/nodepool") or "")
        self.claim = ""
        self.node = ""
        self.reason = ""
        self.joined: datetime | None = None
        self.ready: datetime | None = None
        self.noticed: datetime | None = None
        self.disrupted: datetime | None = None
        self.ended: datetime | None = None
        self.deleted: datetime | None = None
        self.pods: list[str] = []
        self.evicted: list[tuple[datetime, str]] = []

    @property
    def name(self) -> str:
        """Its name for people: its node, or its instance before it has joined."""
        return self.node or self.instance

    def cost(self, end: datetime) -> float:
        """Return its cost in dollars until it ended, or until `end`."""
        return self.price * ((self.ended or end) - self.launched).total_seconds() / 3600


def lives(events: Events) -> tuple[NodeLifetime, ...]:
    """Return every instance of the record, in order of launch."""
    all_lives = _Lives()
    for at, event, fields in events:
        all_lives.see(at, event, fields)
    return tuple(all_lives.by_instance.values())


class _Lives:
    def __init__(self) -> None:
        self.by_instance: dict[str, NodeLifetime] = {}
        self._by_node: dict[str, NodeLifetime] = {}
        self._daemons: set[str] = set()

    def see(self, at: datetime, event: str, fields: Mapping[str, Any]) -> None:
        if event == "instanceLaunched":
            self.by_instance[fields["instance"]] = NodeLifetime(at, fields)
        elif event == "podCreated" and str(fields.get("owner") or "").startswith("DaemonSet/"):
            self._daemons.add(fields["pod"])
        elif event == "nodeJoined":
            self._joined(at, fields)
        elif fields.get("instance") in self.by_instance:
            self._of_instance(at, event, self.by_instance[fields["instance"]])
        elif fields.get("node") in self._by_node:
            self._of_node(at, event, fields, self._by_node[fields["node"]])

    def _joined(self, at: datetime, fields: Mapping[str, Any]) -> None:
        life = self.by_instance.get(str(fields.get("providerID") or "").rpartition("/")[2])
        if life is not None:
            life.node, life.claim, life.joined = fields["node"], str(fields.get("nodeClaim") or ""), at
            self._by_node[life.node] = life

    def _of_instance(self, at: datetime, event: str, life: NodeLifetime) -> None:
        if event == "instanceTerminated":
            life.ended = at
        elif event == "interruptionNotice":
            life.noticed = life.noticed or at

    def _of_node(self, at: datetime, event: str, fields: Mapping[str, Any], life: NodeLifetime) -> None:
        if event == "nodeReady":
            life.ready = life.ready or at
        elif event == "nodeTainted" and fields.get("key") == "karpenter.sh/disrupted":
            life.disrupted, life.reason = at, str(fields.get("reason") or "")
        elif event == "nodeUntainted" and fields.get("key") == "karpenter.sh/disrupted":
            life.disrupted, life.reason = None, ""
        elif event == "nodeDeleted":
            life.deleted = at
        elif event == "podBound" and fields["pod"] not in self._daemons:
            life.pods.append(fields["pod"])
        elif event == "podEvicted" and fields["pod"] not in self._daemons:
            life.evicted.append((at, fields["pod"]))


# Builds one row per command (decided, replaced, drained, gone, and why), per launch, and per other decision.


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
    command_of = {}
    for decision in decisions:
        match = _COMMAND.search(str(decision.get("message") or ""))
        if decision["kind"] == "terminate" and match:
            command_of[str(decision["subject"])] = match.group(1)
    return command_of


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
        reached = [moment for moment in moments if moment is not None]
        if reached:
            links.append(
                (max(reached), word, f"{(max(reached) - first.launched).total_seconds():.0f} s after the launch")
            )
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


def _names(lifetimes: Sequence[NodeLifetime]) -> str:
    return ", ".join(life.name for life in lifetimes)


def _command_in(claim: str) -> str:
    """Return the command in a claim's name: `general-f9a2a9a922-0` was launched by command f9a2a9a922."""
    parts = claim.rsplit("-", 2)
    return parts[1] if len(parts) == 3 else ""
