"""Answers of `plan` and `consolidate`: documents for programs, tables for people, and the numbers of both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from cli.arguments import time_limit_line
from cli.terminal import output
from cli.terminal.output import counted, pages_lines, reason_page
from cli.terminal.style import style
from core import labels
from core.api.objects import JsonObject
from core.containment import SetAside
from core.counterfactual.overrides import ProvenMinimum
from core.model.plan import (
    Blocked,
    BufferRoom,
    Command,
    Cost,
    DisruptionPlan,
    Plan,
    PlannedClaim,
    PlannedGroup,
    WaitingPod,
)
from core.model.values import quantity
from core.model.values.quantity import dollars
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint
from core.pods import ROOM, SPOT
from core.pools import charges_of
from core.reasons.runs import RunReason

if TYPE_CHECKING:
    from core.disruption.gap import GapParts

# Formats dollars for people: per hour, per month, next to a proven minimum.


HOURS_A_MONTH: Final = 730
"""As on AWS's price pages: 8,760 hours a year in twelve months."""

_OTHER_CURRENCIES: Final = (("cn-", "yuan"), ("eusc-", "euros"))
"""Begin of a region's name → the currency of AWS's prices there."""

_PROVEN: Final = 0.0005
"""Share of the cost below which a plan counts as the proven minimum: prices have four digits."""


_TOO_LOW: Final = 0.1
"""A bound below this share of the cost is not shown: it is low only because reserved places cost nearly nothing."""


def a_month(hourly: float) -> float:
    """Return dollars a month for a price per hour."""
    return hourly * HOURS_A_MONTH


def amount(value: float) -> float:
    """Return dollars, or a share of them, with the six digits of answers."""
    return round(value, 6)


def cents(monthly: float) -> float:
    """Return dollars a month with the two digits of answers."""
    return round(monthly, 2)


def hours(value: float) -> float:
    """Return hours with the four digits of answers."""
    return round(value, 4)


def share(part: float, total: float) -> float | None:
    """Return a part of a whole; None if the whole is zero."""
    return amount(part / total) if total else None


def other_currency(region: str) -> str:
    """Return the currency of AWS's prices in a region, empty for dollars."""
    return next((name for prefix, name in _OTHER_CURRENCIES if region.startswith(prefix)), "")


def rate(hourly: float) -> str:
    """Return a price as `$0.2295 an hour, $168 a month`."""
    return f"${hourly:,.4f} an hour, ${a_month(hourly):,.0f} a month"


def proven_distance(hourly: float, lower_bound: float | None) -> str:
    """Return how far a cost is from the proven minimum, as a part of a sentence; empty without a useful bound."""
    if lower_bound is None or lower_bound < hourly * _TOO_LOW or not hourly:
        return ""
    if (hourly - lower_bound) / hourly <= _PROVEN:
        return "proven to be the minimum"
    return f"{hourly / lower_bound - 1:.1%} above the proven minimum of ${lower_bound:,.4f} an hour"


# Builds plan documents by the command line's contract: quantities as text, prices in dollars.


API_VERSION: Final = "fleetwright.dev/v1"


def plan_document(plan: Plan) -> JsonObject:
    """Return `kind: Plan` without its timing; with `buffers`, `groups` and `waiting` only if there are any."""
    document = {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "now": rfc3339(plan.now),
        "nodeClaims": [claim_document(claim) for claim in plan.claims],
        "bindings": [{"pod": binding.pod, "node": binding.node} for binding in plan.bindings],
        "unschedulable": [
            {
                "pod": unplaced.pod,
                "reason": unplaced.reason,
                "message": unplaced.message,
                "page": reason_page(unplaced.reason),
            }
            for unplaced in plan.unschedulable
        ],
        "cost": _cost_fields(plan.cost) | {"spotHourly": dollars(_spot_price(plan.claims))},
    }
    document |= {"buffers": [_room(room) for room in plan.buffers]} if plan.buffers else {}
    document |= {"waiting": [_waiting(pod) for pod in plan.waiting]} if plan.waiting else {}
    return document | ({"groups": [group_document(group) for group in plan.groups]} if plan.groups else {})


def set_aside_fields(set_aside: Iterable[SetAside]) -> JsonObject:
    """Return `setAside`, only if something is: objects that cause an error of ours, without which all others are decided."""
    ordered = sorted(set(set_aside))
    fields = [{"object": aside.object, "reason": aside.reason, "message": aside.message} for aside in ordered]
    return {"setAside": fields} if fields else {}


_WRITTEN_WRONGLY: Final = (RunReason.CANNOT_BE_READ, RunReason.REFUSED_BY_API_SERVER)


def set_aside_lines(document: JsonObject) -> str:
    """Return one line for each object that is set aside, and what to do about those that are written wrongly."""
    aside_objects = document.get("setAside", ())
    lines = [f"set aside {aside['object']} [{aside['reason']}]: {aside['message']}" for aside in aside_objects]
    if any(aside["reason"] in _WRITTEN_WRONGLY for aside in aside_objects):
        lines.append("every problem of every object, with its line: fleetwright validate -f …")
    return "\n".join(output.wrapped(line) for line in lines)


def disruption_document(plan: DisruptionPlan) -> JsonObject:
    """`kind: DisruptionPlan`."""
    bound = plan.cost.lower_bound
    return {
        "apiVersion": API_VERSION,
        "kind": "DisruptionPlan",
        "now": rfc3339(plan.now),
        "commands": [_command(command) for command in plan.commands],
        "blocked": [_blocked_fields(blocked) for blocked in plan.blocked],
        "budgets": {pool: dict(by_reason) for pool, by_reason in plan.budgets.items()},
        "cost": {
            "before": dollars(plan.cost.before),
            "after": dollars(plan.cost.after),
            "lowerBound": None if bound is None else dollars(bound),
        },
        **(
            {"division": {"parts": plan.parts, "undivided": plan.undivided}} if plan.parts > 1 or plan.undivided else {}
        ),
    }


def end_fields(plan: DisruptionPlan) -> JsonObject:
    """Return where all waves end, from a plan that ignores budgets. A pod that moves twice is evicted twice."""
    return {
        "hourly": dollars(plan.cost.after),
        "evictions": sum(len(command.moves) for command in plan.commands),
        "nodesRemoved": sum(len(command.nodes) for command in plan.commands),
        "nodesLaunched": sum(len(command.replacements) for command in plan.commands),
        "waves": max((command.wave for command in plan.commands), default=0),
    }


def gap_fields(parts: GapParts) -> JsonObject:
    """Return the parts of what a fleet costs above its bound."""
    return {
        "moves": dollars(parts.moves),
        "spotToSpot": dollars(parts.spot_to_spot),
        "rest": dollars(parts.rest),
    }


def _waiting(pod: WaitingPod) -> JsonObject:
    return {
        "pod": pod.pod,
        "startBefore": rfc3339(pod.deadline),
        "launchAt": rfc3339(pod.launch_at),
        "waitsFor": SPOT if pod.takes_spot else ROOM,
        "atOnce": dollars(pod.at_once),
        "hourly": dollars(pod.cost),
    }


def claim_document(claim: PlannedClaim) -> JsonObject:
    """Return one node to launch, with `bufferPods`, `commitment` and `chargedTo` (cap → share) only if it has some."""
    document = {
        "name": claim.name,
        "nodePool": claim.node_pool,
        "labels": dict(sorted(claim.labels.items())),
        "taints": [_taint(taint) for taint in claim.taints],
        "startupTaints": [_taint(taint) for taint in claim.startup_taints],
        "requirements": [entry for requirement in claim.requirements for entry in _requirement(requirement)],
        "instanceTypes": list(claim.instance_types),
        "zones": list(claim.zones),
        "capacityTypes": list(claim.capacity_types),
        "resources": quantity.render_resources(claim.resources),
        "pods": list(claim.pods),
        "price": dollars(claim.price),
    }
    rooms = {"bufferPods": list(claim.buffer_pods)} if claim.buffer_pods else {}
    charges = {cap: share / quantity.PPM for cap, share in charges_of(claim.annotations).items()}
    return (
        document
        | rooms
        | ({"commitment": claim.commitment} if claim.commitment else {})
        | ({"chargedTo": charges} if charges else {})
    )


def rfc3339(moment: datetime) -> str:
    """Format a time in UTC like Kubernetes, with fractions of a second only if there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _command(command: Command) -> JsonObject:
    from core.disruption.consolidation_nodes import payback_minutes  # a plan disrupts nothing

    return {
        "reason": command.reason,
        "method": command.method,
        "nodes": list(command.nodes),
        "replacements": [claim_document(claim) for claim in command.replacements],
        "moves": [{"pod": move.pod, "to": move.to} for move in command.moves],
        "savings": dollars(command.savings),
        "paybackMinutes": payback_minutes(command),
        "wave": command.wave,
    }


def _blocked_fields(blocked: Blocked) -> JsonObject:
    document: JsonObject = {
        "node": blocked.node,
        "reason": blocked.reason,
        "message": blocked.message,
        "page": reason_page(blocked.reason),
    }
    return document | ({"savings": dollars(blocked.savings)} if blocked.savings else {})


def _room(room: BufferRoom) -> JsonObject:
    return {
        "buffer": room.buffer,
        "onExistingNodes": room.on_existing,
        "onNewNodes": room.on_new,
        "withoutRoom": room.without_room,
    }


def group_document(group: PlannedGroup) -> JsonObject:
    """Return one group of pods that start together."""
    document: JsonObject = {
        "name": group.name,
        "source": group.source,
        "members": group.members,
        "minimum": group.minimum,
        "placed": group.placed,
        "domain": dict(group.domain),
        "hourly": dollars(group.hourly),
    }
    return document | ({"reason": group.reason, "message": group.message} if group.reason else {})


def _cost_fields(cost: Cost) -> JsonObject:
    """Return the cost; `gap` is the share of it above the bound."""
    if cost.lower_bound is None:
        return {"hourly": dollars(cost.hourly), "lowerBound": None, "gap": None}
    gap = (cost.hourly - cost.lower_bound) / cost.hourly if cost.hourly else 0.0
    return {"hourly": dollars(cost.hourly), "lowerBound": dollars(cost.lower_bound), "gap": amount(gap)}


def _spot_price(claims: Iterable[PlannedClaim]) -> int:
    """Return nano-dollars per hour of nodes launched as spot: reservations come first, and spot before on-demand."""
    return sum(c.price for c in claims if labels.SPOT in c.capacity_types and labels.RESERVED not in c.capacity_types)


def _taint(taint: Taint) -> JsonObject:
    written = {"key": taint.key, "effect": taint.effect}
    return written | ({"value": taint.value} if taint.value else {})


def _requirement(requirement: Requirement) -> list[JsonObject]:
    return requirement.to_manifest()


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
        _summary_line(document),
        new_nodes,
        _existing(document, shows_all=shows_all),
        _buffers(document),
        group_rows(document.get("groups", ())),
        _unplaced(document, shows_all=shows_all),
        set_aside_lines(document),
        time_limit_line(document.get("timing", {}).get("stoppedBy")),
        prices_line(document),
    ]
    return "\n\n".join(part for part in parts if part)


def prices_line(document: JsonObject) -> str:
    """Return the source of prices and their age."""
    prices = document.get("prices")
    if not prices:
        return ""
    place = " of ".join(part for part in (prices["region"], prices["date"]) if part)
    unit = other_currency(prices["region"])
    shown = f"in {unit}, shown as $" if unit else ""
    return style.styled(f"prices: {', '.join(part for part in (place, prices['source'], shown) if part)}", "dim")


def _summary_line(document: JsonObject) -> str:
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
    return f"{text}\n{_cost_line(document)}" if claims else text


def _cost_line(document: JsonObject) -> str:
    cost = document["cost"]
    bound, spot = proven_distance(cost["hourly"], cost["lowerBound"]), cost.get("spotHourly", 0)
    share = f", {spot / cost['hourly']:.0%} of it spot" if spot else ""
    parts = (f"{rate(cost['hourly'])}{share}", bound, _covered(document["nodeClaims"]))
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


def group_rows(groups: Iterable[JsonObject]) -> str:
    """Return one row for each group of pods that start together."""
    rows = [
        (
            group["name"],
            group["source"],
            f"{group['placed']} of {group['members']}",
            group["minimum"],
            ", ".join(group["domain"].values()) or "any",
            group["hourly"] if not group.get("reason") else f"[{group['reason']}]",
        )
        for group in groups
    ]
    return output.table(("GROUP", "WRITTEN AS", "PLACED", "MINIMUM", "DOMAIN", "$/H"), rows) if rows else ""


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
    hidden_rows = 0 if shows_all else max(0, len(rows) - _ROWS_MAX)
    table = output.table(headings, rows[: len(rows) - hidden_rows])
    return f"{table}\n{style.styled(f'and {hidden_rows} more: --all', 'dim')}" if hidden_rows else table


def _buffers(document: JsonObject) -> str:
    rows = [
        (room["buffer"], room["onExistingNodes"], room["onNewNodes"], room["withoutRoom"])
        for room in document.get("buffers", ())
    ]
    return output.table(("CAPACITY BUFFER", "ROOM ON EXISTING", "ON NEW NODES", "NO ROOM"), rows) if rows else ""


_NEXT_POOL: Final = re.compile(r"(?:\\n|\n)(?=NodePool )")


def _lines_of(message: str) -> list[str]:
    """Return the lines of a message, one for each NodePool. Tables get its line ends escaped, and names may hold others."""
    return _NEXT_POOL.split(message)


def _unplaced(document: JsonObject, *, shows_all: bool) -> str:
    """Group unplaced pods by code and nearest miss."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for unplaced in document["unschedulable"]:
        by_reason.setdefault((unplaced["reason"], unplaced["message"]), []).append(unplaced["pod"])
    entries = [
        _entry(pods, reason, _lines_of(message), shows_all=shows_all) for (reason, message), pods in by_reason.items()
    ]
    if not entries:
        return ""
    hidden_reasons = 0 if shows_all else max(0, len(entries) - _ROWS_MAX)
    more = [style.styled(f"and {hidden_reasons} more reasons: --all", "dim")] if hidden_reasons else []
    first = min(unplaced["pod"] for unplaced in document["unschedulable"])
    text = output.wrapped(f"every NodePool's reason: --all, or fleetwright explain {first}")
    hint = [] if shows_all else [style.styled(text, "dim")]
    pages = pages_lines(reason for reason, _ in by_reason)
    return "\n".join([*entries[: len(entries) - hidden_reasons], *more, *hint, pages])


def _entry(pods: Sequence[str], reason: str, lines: Sequence[str], *, shows_all: bool) -> str:
    named = pods[0] if len(pods) == 1 else f"{len(pods)} pods ({output.several(pods, len(pods) if shows_all else 3)})"
    head = f"no place for {named} [{reason}]"
    parts = output.wrapped("\n".join([head, *(f"  {line}" for line in _kept(lines, shows_all=shows_all))]))
    return parts.replace("no place", style.styled("no place", "red"), 1)


def _kept(lines: Sequence[str], *, shows_all: bool) -> Iterable[str]:
    return lines if shows_all else lines[:1]


# Formats a disruption plan for people: what it saves, which nodes go, why the others stay.


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
        set_aside_lines(document),
        _budgets(document["budgets"], has_commands=bool(document["commands"])),
        _division(document.get("division")),
        time_limit_line(document.get("timing", {}).get("stoppedBy")),
        prices_line(document),
    ]
    return "\n\n".join(part for part in parts if part)


def _division(division: JsonObject | None) -> str:
    """Return in how many parts the cluster was planned, or why it was not divided; empty if nobody asked."""
    if division is None:
        return ""
    if division["undivided"]:
        return output.wrapped(f"planned as a whole: {division['undivided']}")
    return f"planned in {division['parts']} parts that share no pods"


def disruption_names(document: JsonObject) -> str:
    """Return the leaving nodes as kubectl names objects."""
    return "\n".join(f"node/{node}" for command in document["commands"] for node in command["nodes"])


def _summary(document: JsonObject) -> str:
    """Return where the waves end, and what goes now; the latter alone if no wave follows."""
    cost, end = document["cost"], document.get("end")
    if end is None or not end["nodesRemoved"]:
        now = _now(document)
        if not document["commands"]:
            return f"{now}; {rate(cost['before'])}{_bound(cost['before'], cost)}{_gap(cost)}"
        after = f"${cost['after']:,.4f} after{_bound(cost['after'], cost)}"
        return f"{now}\n${cost['before']:,.4f} an hour before, {after}{_gap(cost)}"
    nodes = style.styled(f"in the end {_nodes(end['nodesRemoved'], end['nodesLaunched'])}", "bold")
    way = f"{counted(end['evictions'], 'eviction')} in {counted(end['waves'], 'wave')}"
    lines = (
        f"{nodes}, with {way}: {_saved(cost['before'], end['hourly'])}",
        f"${cost['before']:,.4f} an hour before, ${end['hourly']:,.4f} in the end{_bound(end['hourly'], cost)}{_gap(cost)}",
        f"now, within the budgets: {_now(document)}",
    )
    return "\n".join(lines)


def _now(document: JsonObject) -> str:
    """Return what the commands do, which may begin now."""
    cost, commands = document["cost"], document["commands"]
    if not commands:
        return style.styled("no node goes", "bold")
    going = sum(len(command["nodes"]) for command in commands)
    coming = sum(len(command["replacements"]) for command in commands)
    moved = len({move["pod"] for command in commands for move in command["moves"]})
    moves = f"{counted(moved, 'pod')} {'moves' if moved == 1 else 'move'}"
    saved = _saved(cost["before"], cost["after"], _payback(commands))
    return f"{style.styled(_nodes(going, coming), 'bold')}, {moves}: {saved}"


def _nodes(going: int, coming: int) -> str:
    goes = "goes" if going == 1 else "go"
    return f"{counted(going, 'node')} {goes}, {coming or 'none'} {'comes' if coming < 2 else 'come'}"


def _saved(before: float, after: float, payback: str = "") -> str:
    saved = before - after
    share = f", {abs(saved) / before:.0%}" if before else ""
    word = "saves" if saved >= 0 else "costs"
    amounts = f"{word} ${abs(saved):,.4f} an hour, ${a_month(abs(saved)):,.0f} a month{share}{payback}"
    return style.styled(amounts, "green")


def _payback(commands: Sequence[JsonObject]) -> str:
    """Return the longest time after which a command's savings have paid for its move."""
    minutes = max((command["paybackMinutes"] or 0 for command in commands), default=0)
    return f"; each command pays for itself within {counted(minutes, 'minute')}" if minutes else ""


def _bound(hourly: float, cost: Mapping[str, Any]) -> str:
    distance = proven_distance(hourly, cost["lowerBound"])
    return f"; {distance}" if distance else ""


def _gap(cost: Mapping[str, Any]) -> str:
    """Return a line with the parts of the distance from the proven minimum, in percentage points of it, if it has several."""
    parts, bound = cost.get("gapParts"), cost["lowerBound"]
    if not parts or not bound or not parts["moves"] + parts["spotToSpot"]:
        return ""
    if not proven_distance(bound + sum(parts.values()), bound).endswith("an hour"):
        return ""
    points = {name: f"{part / bound * 100:.1f}" for name, part in parts.items()}
    moves = f"{points['moves']} points for the price of moves"
    gate = f"{points['spotToSpot']} for spot nodes that no spot node replaces"
    return f"\nof it {moves}, {gate}, {points['rest']} for the rest"


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
    for blocked_node in blocked:
        by_code.setdefault(blocked_node["reason"], {}).setdefault(
            _of_it(blocked_node["message"], blocked_node["node"]), []
        ).append(blocked_node["node"])
    paragraphs = []
    for reason, by_message in by_code.items():
        if shows_all or len(by_message) <= _MESSAGES_MAX:
            paragraphs += [_alike(reason, *entry, shows_all=shows_all) for entry in by_message.items()]
        else:
            paragraphs.append(_such_as(reason, by_message))
    more = [] if shows_all or not blocked else [f"every node: --all, or fleetwright explain {blocked[0]['node']}"]
    return "\n".join([*(output.wrapped(paragraph) for paragraph in paragraphs), *more, pages_lines(by_code)]).rstrip()


def _of_it(message: str, node: str) -> str:
    """Return the message with `it` in place of the node's whole name, so that several nodes can share it."""
    return re.sub(rf"(?<![\w./-])(?:node )?{re.escape(node)}(?!\.?[\w/-])", "it", message)


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
        for reason, allowed in sorted(by_reason.items()):
            numbers.setdefault(allowed, []).append(reason)
        parts = [
            _number(allowed) if len(numbers) == 1 else f"{_number(allowed)} for {', '.join(reasons)}"
            for allowed, reasons in numbers.items()
        ]
        pools.append(f"{pool} {', '.join(parts)}")
    if not pools:
        return ""
    when = "before these commands" if has_commands else "now"
    return style.styled(output.wrapped(f"nodes that NodePools' budgets let go {when}: {'; '.join(pools)}"), "dim")


def _number(allowed: int | None) -> str:
    return "any number" if allowed is None else str(allowed)


# Formats the proven minimum of a fleet as data, for the reports that compare costs with it.


def minimum_answer(minimum: ProvenMinimum | None) -> JsonObject | None:
    """Return `provenMinimum`, None if no minimum is proven."""
    if minimum is None:
        return None
    return {
        "dollars": amount(dollars(minimum.cost)),
        "spentMeanwhile": amount(dollars(minimum.spent)),
        "hours": hours(minimum.over / timedelta(hours=1)),
    }
