"""Formats `fleetwright savings`: what is paid, where Karpenter's moves and ours end, and the proven minimum."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cli.answers.difference import html_page, html_table
from cli.answers.plan import API_VERSION, a_month, rfc3339
from cli.terminal import output
from core import labels
from core.api.objects import JsonObject
from core.commitments import paid_price
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot
from core.model.state_node import state_nodes
from core.model.values.quantity import dollars
from core.pools import node_price, pool_types, type_of


def savings_document(
    snapshot: Snapshot, karpenter: DisruptionPlan, fleetwright: DisruptionPlan, prices: JsonObject
) -> JsonObject:
    """Return `kind: Savings`, in dollars per hour; the time of the observation is `observedAt`, as `now` is the cost."""
    bound = fleetwright.cost.lower_bound
    return {
        "apiVersion": API_VERSION,
        "kind": "Savings",
        "observedAt": rfc3339(fleetwright.now),
        "now": dollars(fleetwright.cost.before),
        "karpenter": _end(karpenter),
        "fleetwright": _end(fleetwright),
        "lowerBound": None if bound is None else dollars(bound),
        "byCapacityType": _by_capacity_type(snapshot),
        "prices": prices,
    }


def _end(plan: DisruptionPlan) -> JsonObject:
    """Return where the moves of a decision end. A pod that moves twice is evicted twice."""
    return {
        "hourly": dollars(plan.cost.after),
        "evictions": sum(len(command.moves) for command in plan.commands),
        "nodesRemoved": sum(len(command.nodes) for command in plan.commands),
        "nodesLaunched": sum(len(command.replacements) for command in plan.commands),
    }


def _by_capacity_type(snapshot: Snapshot) -> JsonObject:
    """Return nodes, list price and the part that commitments cover, by capacity type."""
    by_type: dict[str, dict[str, int]] = {}
    for state in state_nodes(snapshot):
        if state.is_managed:
            kind = state.labels.get(labels.CAPACITY_TYPE, labels.ON_DEMAND)
            listed = node_price(state.labels, type_of(state.labels, pool_types(snapshot).by_name(state.node_pool)))
            sums = by_type.setdefault(kind, {"nodes": 0, "listed": 0, "paid": 0})
            sums["nodes"] += 1
            sums["listed"] += listed
            sums["paid"] += paid_price(state, snapshot)
    return {
        kind: {
            "nodes": sums["nodes"],
            "hourly": dollars(sums["paid"]),
            "coveredByCommitments": dollars(sums["listed"] - sums["paid"]),
        }
        for kind, sums in sorted(by_type.items())
    }


def as_table(document: JsonObject) -> str:
    """Format five lines, then the details."""
    headings, rows = _details(document)
    return "\n\n".join(("\n".join(_lines(document)), output.table(headings, rows), _prices(document)))


def as_markdown(document: JsonObject) -> str:
    """Format the same for a pull request or a ticket."""
    headings, rows = _details(document)
    table = [f"| {' | '.join(headings)} |", "| --- | ---: | ---: | ---: |", *(f"| {' | '.join(row)} |" for row in rows)]
    lines = [f"- {line}" for line in _lines(document)]
    return "\n".join(("### Fleetwright: savings", "", *lines, "", *table, "", _prices(document)))


def as_html(document: JsonObject) -> str:
    """Format the same as a page of its own."""
    first, *rest = _lines(document)
    return html_page(
        "Savings", first, [html_table(*_details(document))], ("In short", [*rest, _prices(document)])
    ).rstrip("\n")


def _lines(document: JsonObject) -> list[str]:
    now, bound = document["now"], document["lowerBound"]
    covered = sum(sums["coveredByCommitments"] for sums in document["byCapacityType"].values())
    spot = document["byCapacityType"].get(labels.SPOT, {"nodes": 0, "hourly": 0.0})
    nodes = output.counted(spot["nodes"], "node")
    apart = f"commitments cover ${covered:,.4f} an hour more; spot is ${spot['hourly']:,.4f} of what you pay ({nodes})"
    minimum = "unknown" if bound is None else f"${bound:,.4f} an hour: no placement of these pods costs less"
    return [
        f"you pay               ${now:,.4f} an hour, ${a_month(now):,.0f} a month",
        f"Karpenter would reach {_reached(document['karpenter'], now)}",
        f"Fleetwright reaches   {_reached(document['fleetwright'], now)}",
        f"proven minimum        {minimum}",
        f"told apart            {apart}",
    ]


def _reached(end: Mapping[str, Any], now: float) -> str:
    share = f" ({(now - end['hourly']) / now:.0%} less)" if now else ""
    return f"${end['hourly']:,.4f} an hour{share} with {output.counted(end['evictions'], 'eviction')}"


def _details(document: JsonObject) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    rows: list[tuple[str, ...]] = [
        (name, f"{end['hourly']:.4f}", str(end["evictions"]), f"{end['nodesRemoved']} / {end['nodesLaunched']}")
        for name, end in (
            ("Karpenter's moves", document["karpenter"]),
            ("Fleetwright's moves", document["fleetwright"]),
        )
    ]
    return ("POLICY", "$ AN HOUR", "EVICTIONS", "NODES REMOVED / LAUNCHED"), rows


def _prices(document: JsonObject) -> str:
    prices = document["prices"]
    date = f" of {prices['date']}" if prices.get("date") else ""
    return f"without disruption budgets; prices: {prices['source']}, {prices['region']}{date}"
