"""What `fleetwright top` shows: rows of a cluster, and the lines of the screen for them, as pure functions.

Only visible rows are formatted for the screen, so ten thousand nodes cost as much as forty for each key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from cli.answers.plan import a_month
from cli.answers.status import status_document
from cli.terminal.output import counted
from core.api.objects import JsonObject
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values.quantity import CPU, MEMORY
from core.pods import is_pending

if TYPE_CHECKING:
    from cli.cluster.own_state import OwnState
    from core.model.plan import DisruptionPlan

NODES, POOLS, PODS, WORK = "nodes", "pools", "pods", "work"
TABS: Final = (NODES, POOLS, PODS, WORK)

_HEAD_LINES: Final = 3
"""Lines above the rows: the cluster, the tabs, the headings."""

_FOOT_LINES: Final = 1
_NAME_SHARE: Final = 0.4
"""The most of a line's width that the first column gets: longer names are cut in the middle."""

_NAME_MIN: Final = 16
_GAP: Final = "  "
_UP, _DOWN = "▲", "▼"
_SECONDS: Final = (("d", 86_400), ("h", 3_600), ("m", 60))

HELP: Final = (
    "1 to 4, Tab     nodes, NodePools, pods that wait, work and brakes",
    "arrows, j, k    one row; Page Up, Page Down; g and G for the first and the last",
    "Enter           everything about a row; Esc goes back",
    "/               show rows with this text only; Esc ends it",
    "s, S            sort by the next column; turn the order around",
    "r               read the cluster now",
    "?               this help",
    "q               quit",
)


class Row(NamedTuple):
    """One row: its cells, what it is sorted by in each column, and everything about it."""

    cells: tuple[str, ...]
    keys: tuple[float | str, ...]
    details: tuple[str, ...]


class Table(NamedTuple):
    """One tab's rows."""

    headings: tuple[str, ...]
    rows: tuple[Row, ...]
    widths: tuple[int, ...]


class Observation(NamedTuple):
    """What was read at one moment."""

    title: str
    read_at: datetime
    tables: Mapping[str, Table]


class View(msgspec.Struct, frozen=True):
    """What the user looks at.

    Attributes:
        cursor: The selected row, from 0, among those that are shown.
        top: The first row on the screen.
        sort: The column by which rows are sorted; None for the order of the observation.
        text: Only rows with this text are shown.
        is_typing: Whether keys go to `text`.
        shows: `table`, `details` or `help`.
    """

    tab: str = NODES
    cursor: int = 0
    top: int = 0
    sort: int | None = None
    is_reversed: bool = False
    text: str = ""
    is_typing: bool = False
    shows: str = "table"
    is_over: bool = False
    wants_reading: bool = False


def observation(
    snapshot: Snapshot, own_state: OwnState | None, plan: DisruptionPlan | None, *, cluster: str | None
) -> Observation:
    """Return the rows of a snapshot; without a plan, why nodes stay or go is not known yet."""
    document = status_document(snapshot, own_state, cluster=cluster)
    why = _why(plan)
    tables = {
        NODES: _table(
            ("NODE", "NODEPOOL", "TYPE", "CAPACITY", "AGE", "CPU", "MEMORY", "PODS", "$/H", "STATE", "WHY"),
            _nodes(snapshot, document, why),
        ),
        POOLS: _table(("NODEPOOL", "NODES", "STARTING", "PODS", "$/H", "MAY LEAVE NOW", "HELD BY"), _pools(document)),
        PODS: _table(("POD", "WAITS", "CPU", "MEMORY"), _pods(snapshot)),
        WORK: _table(("WHAT", "WHY", "SINCE", "NODES"), _work(document, snapshot.now)),
    }
    return Observation(_title(document, plan), snapshot.now, tables)


def _title(document: JsonObject, plan: DisruptionPlan | None) -> str:
    cost, nodes = document["cost"], sum(pool["nodes"] for pool in document["nodePools"])
    parts = [
        counted(nodes, "node"),
        f"${cost['hourly']:,.2f}/h, ${a_month(cost['hourly']):,.0f} a month",
        f"{counted(len(document['pendingPods']), 'pod')} waiting",
    ]
    if document["brakes"]:
        parts.append(f"{counted(len(document['brakes']), 'brake')} engaged")
    if plan is None:
        parts.append("deciding …")
    elif plan.commands:
        going = sum(len(command.nodes) for command in plan.commands)
        parts.append(f"{counted(going, 'node')} can go, ${(plan.cost.before - plan.cost.after) / 1e9:,.2f}/h less")
    return f"{document['cluster'] or 'cluster'}: {'; '.join(parts)}"


def _table(headings: tuple[str, ...], rows: Sequence[Row]) -> Table:
    columns = zip((f"{name}{_DOWN}" for name in headings), *(row.cells for row in rows), strict=True)
    return Table(headings, tuple(rows), tuple(max(map(len, column)) for column in columns))


def _why(plan: DisruptionPlan | None) -> dict[str, tuple[str, str]]:
    """Return node → why it stays or goes, as a code and a sentence."""
    if plan is None:
        return {}
    why = {stays.node: (stays.reason, stays.message) for stays in plan.blocked}
    for command in plan.commands:
        to = ", ".join(claim.instance_types[0] for claim in command.replacements) or "nothing"
        why |= dict.fromkeys(command.nodes, (f"goes: {command.reason}", f"can go, replaced by {to}"))
    return why


def _nodes(snapshot: Snapshot, document: JsonObject, why: Mapping[str, tuple[str, str]]) -> list[Row]:
    claims = {claim["name"]: claim for claim in document["claims"]}
    return [_node(state, snapshot.now, claims.get(state.claim_name, {}), why) for state in state_nodes(snapshot)]


def _node(state: StateNode, now: datetime, claim: JsonObject, why: Mapping[str, tuple[str, str]]) -> Row:
    used = {name: sum(pod.spec.requests.get(name, 0) for pod in state.pods) for name in (CPU, MEMORY)}
    shares = [100 * used[name] / room if (room := state.allocatable.get(name, 0)) else 0.0 for name in (CPU, MEMORY)]
    since = state.node.created_at if state.node is not None else state.claim.created_at if state.claim else None
    age = (now - since).total_seconds() if since is not None else 0.0
    hourly, (code, message) = float(claim.get("hourly") or 0), why.get(state.name, ("", ""))
    kind, capacity = str(claim.get("instanceType") or ""), str(claim.get("capacityType") or "")
    status = _state(state, claim)
    columns: tuple[tuple[str, float | str], ...] = (
        (state.name, state.name),
        (state.node_pool or "not ours", state.node_pool),
        (kind, kind),
        (capacity, capacity),
        (_span(age), age),
        *((f"{share:.0f}%", share) for share in shares),
        (str(len(state.pods)), len(state.pods)),
        (f"{hourly:.4f}" if claim else "", hourly),
        (status, status),
        (code, code),
    )
    details = (
        f"node {state.name}",
        f"NodePool {state.node_pool or 'none: Fleetwright does not manage it'}; NodeClaim {state.claim_name or 'none'}",
        f"{kind or 'unknown type'} in {claim.get('zone') or 'unknown zone'}, {capacity or 'unknown capacity'}",
        f"${hourly:.4f} an hour",
        f"{status} for {_span(age)}; {shares[0]:.0f}% of CPU and {shares[1]:.0f}% of memory requested",
        *([f"{code}: {message}"] if code else []),
        *([str(claim["message"])] if claim.get("message") else []),
        "",
        *sorted(pod.key for pod in state.pods),
    )
    return Row(tuple(cell for cell, _ in columns), tuple(key for _, key in columns), details)


def _state(state: StateNode, claim: JsonObject) -> str:
    if claim.get("leavingSince"):
        return f"leaving: {claim['leavingWhy'] or 'deleted'}"
    if not state.is_initialized:
        return str(claim.get("phase") or "starting")
    return "ready" if state.node is not None and state.node.is_ready else "NotReady"


def _pools(document: JsonObject) -> list[Row]:
    rows = []
    for pool in document["nodePools"]:
        allowed = sorted(
            {"any" if allowed_nodes is None else str(allowed_nodes) for allowed_nodes in pool["budgets"].values()}
        )
        held = pool["paused"] or pool["rollout"] or pool["invalidBudget"] or ""
        cells = (
            pool["name"],
            str(pool["nodes"]),
            str(pool["starting"]),
            str(pool["pods"]),
            f"{pool['hourly']:.4f}",
            " to ".join(allowed[:1] + allowed[1:][-1:]),
            held,
        )
        keys = (pool["name"], pool["nodes"], pool["starting"], pool["pods"], pool["hourly"], cells[5], held)
        taken = [f"{node['node']} takes a place: {node['why']}" for node in pool["takenBy"]]
        budgets = [
            f"{reason}: {'any number' if allowed_nodes is None else allowed_nodes}"
            for reason, allowed_nodes in pool["budgets"].items()
        ]
        rows.append(
            Row(
                cells, keys, (f"NodePool {pool['name']}", *([held] if held else []), "may leave now:", *budgets, *taken)
            )
        )
    return rows


def _pods(snapshot: Snapshot) -> list[Row]:
    rows = []
    for pod in snapshot.pods:
        if pod.is_daemon or not is_pending(pod, requires_mark=False):
            continue
        waits = (snapshot.now - pod.created_at).total_seconds() if pod.created_at is not None else 0.0
        cpu, memory = pod.spec.requests.get(CPU, 0), pod.spec.requests.get(MEMORY, 0)
        cells = (pod.key, _span(waits), f"{cpu / 1000:g}", f"{memory / 2**30:.1f}Gi")
        rows.append(
            Row(
                cells,
                (pod.key, waits, cpu, memory),
                (f"pod {pod.key}", f"`fleetwright explain {pod.key}` says why it waits"),
            )
        )
    return rows


def _work(document: JsonObject, now: datetime) -> list[Row]:
    """Return brakes, proposals and commands; one row says so where the functions were not read."""
    if document["commands"] is None:
        text = "commands and brakes are known with --cluster NAME"
        return [Row((text, "", "", ""), (text, "", 0.0, ""), (text,))]
    rows = []
    for brake in document["brakes"] or ():
        stops = ", ".join(brake["stops"])
        rows.append(
            Row(
                (f"brake {brake['brake']}", brake["message"], "", f"stops {stops}"),
                (brake["brake"], brake["message"], 0.0, stops),
                (f"brake {brake['brake']}", brake["message"], f"stops {stops}"),
            )
        )
    for proposal in document["proposals"] or ():
        nodes = ", ".join(proposal["nodes"])
        rows.append(
            Row(
                (f"proposal {proposal['id']} {proposal['state']}", proposal["reason"], "", nodes),
                (proposal["id"], proposal["reason"], 0.0, nodes),
                (proposal["what"], proposal["why"], nodes),
            )
        )
    for command in document["commands"]:
        since = (now - datetime.fromisoformat(command["since"])).total_seconds()
        nodes = ", ".join(command["nodes"])
        cells = (f"command {command['id']} {command['phase']}", command["reason"], _span(since), nodes)
        rows.append(
            Row(
                cells,
                (command["id"], command["reason"], since, nodes),
                (*cells, f"saves ${command['savings']:.4f} an hour, moves {counted(command['moves'], 'pod')}"),
            )
        )
    return rows


def _span(seconds: float) -> str:
    for unit, size in _SECONDS:
        if seconds >= size:
            return f"{int(seconds // size)}{unit}"
    return f"{max(0, int(seconds))}s"


# What keys do.


def visible(observed: Observation, view: View) -> list[Row]:
    """Return the tab's rows that have the text, in their order."""
    rows = list(observed.tables[view.tab].rows)
    if view.text:
        text = view.text.lower()
        rows = [row for row in rows if any(text in cell.lower() for cell in row.cells)]
    if view.sort is not None:
        column = view.sort
        rows.sort(key=lambda row: row.keys[column], reverse=view.is_reversed)  # all keys of a column are of one type
    return rows


def pressed(view: View, key: str, observed: Observation, height: int) -> View:
    """Return the view after a key: a character, or a name such as `down`."""
    change = msgspec.structs.replace
    if view.is_typing:
        return _typed(view, key)
    if view.shows != "table":
        return change(view, shows="table", is_over=key == "q") if key in ("escape", "enter", "q", "?", "left") else view
    page = _page(height)
    count = len(visible(observed, view))
    moves: Mapping[str, int] = {
        "down": view.cursor + 1, "j": view.cursor + 1, "up": view.cursor - 1, "k": view.cursor - 1,
        "pagedown": view.cursor + page, "pageup": view.cursor - page, "g": 0, "home": 0, "G": count, "end": count,
    }  # fmt: skip
    if key in moves:
        cursor = max(0, min(count - 1, moves[key]))
        return change(view, cursor=cursor, top=max(min(view.top, cursor), cursor - page + 1))
    return _acted(view, key, observed)


def _typed(view: View, key: str) -> View:
    change = msgspec.structs.replace
    if key in ("enter", "escape"):
        return change(view, is_typing=False, text=view.text if key == "enter" else "", cursor=0, top=0)
    if key == "backspace":
        return change(view, text=view.text[:-1], cursor=0, top=0)
    return change(view, text=view.text + key, cursor=0, top=0) if len(key) == 1 and key.isprintable() else view


def _acted(view: View, key: str, observed: Observation) -> View:
    change = msgspec.structs.replace
    columns = len(observed.tables[view.tab].headings)
    acts: Mapping[str, Callable[[], View]] = {
        "q": lambda: change(view, is_over=True),
        "r": lambda: change(view, wants_reading=True),
        "?": lambda: change(view, shows="help"),
        "enter": lambda: change(view, shows="details"),
        "/": lambda: change(view, is_typing=True, text=""),
        "escape": lambda: change(view, text="", cursor=0, top=0),
        "s": lambda: change(view, sort=0 if view.sort is None else (view.sort + 1) % columns, cursor=0, top=0),
        "S": lambda: change(view, is_reversed=not view.is_reversed, cursor=0, top=0),
        "tab": lambda: View(tab=TABS[(TABS.index(view.tab) + 1) % len(TABS)]),
        **{str(number): (lambda tab=tab: View(tab=tab)) for number, tab in enumerate(TABS, 1)},  # type: ignore[misc]
    }
    return acts[key]() if key in acts else view


def _page(height: int) -> int:
    return max(1, height - _HEAD_LINES - _FOOT_LINES)


# The lines of the screen.

BOLD, REVERSE, DIM = "bold", "reverse", "dim"


class Line(NamedTuple):
    """One line of the screen, exactly as wide as it, and its style."""

    text: str
    style: str = ""


def frame(observed: Observation | None, view: View, width: int, height: int, problem: str = "") -> list[Line]:
    """Return exactly `height` lines of at most `width` characters."""
    if observed is None:
        lines = [Line(problem or "reading the cluster …")]
    elif view.shows == "help":
        lines = [Line("keys", BOLD), Line(""), *map(Line, HELP)]
    else:
        rows = visible(observed, view)
        cursor = min(view.cursor, max(0, len(rows) - 1))
        if view.shows == "details" and rows:
            lines = [Line(text, "" if number else BOLD) for number, text in enumerate(rows[cursor].details)]
        else:
            lines = [
                Line(observed.title, BOLD),
                _tabs(observed, view),
                *_rows(observed.tables[view.tab], rows, view, cursor, width, height),
            ]
    body = (lines + [Line("")] * height)[: height - _FOOT_LINES]
    return [Line(_cut(line.text, width), line.style) for line in (*body, _foot(observed, view, problem))][-height:]


def _tabs(observed: Observation, view: View) -> Line:
    names = (
        f"[{number} {tab} {len(observed.tables[tab].rows)}]"
        if tab == view.tab
        else f" {number} {tab} {len(observed.tables[tab].rows)} "
        for number, tab in enumerate(TABS, 1)
    )
    filtered = f"   /{view.text}{'_' if view.is_typing else ''}" if view.text or view.is_typing else ""
    return Line(" ".join(names) + filtered)


def _rows(table: Table, rows: Sequence[Row], view: View, cursor: int, width: int, height: int) -> list[Line]:
    top = max(0, min(view.top, len(rows) - _page(height)))
    first = min(table.widths[0], max(_NAME_MIN, int(width * _NAME_SHARE)))
    widths = (first, *table.widths[1:])
    marked = [
        f"{name}{_UP if view.is_reversed else _DOWN}" if number == view.sort else name
        for number, name in enumerate(table.headings)
    ]
    lines = [Line(_joined(marked, widths), DIM)]
    for number, row in enumerate(rows[top : top + _page(height)], top):
        text = _joined(row.cells, widths)
        lines.append(Line(text.ljust(width), REVERSE) if number == cursor else Line(text))
    return lines


def _joined(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(_shortened(cell, width).ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def _shortened(text: str, width: int) -> str:
    """Cut a long text in the middle: names differ at both ends."""
    if len(text) <= width:
        return text
    begin = (width - 1) // 2
    return f"{text[:begin]}…{text[len(text) - (width - 1 - begin) :]}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: max(0, width - 1)]}…"


def _foot(observed: Observation | None, view: View, problem: str) -> Line:
    if problem and observed is not None:
        return Line(f"{problem} (read again soon)", REVERSE)
    when = f"read at {observed.read_at:%H:%M:%S} UTC   " if observed is not None else ""
    keys = (
        "Enter keeps the text, Esc ends it"
        if view.is_typing
        else "? keys   Enter details   / filter   s sort   r read   q quit"
    )
    return Line(f"{when}{keys}", DIM)
