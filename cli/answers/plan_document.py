"""Builds plan documents by the command line's contract: quantities as text, prices in dollars."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Final

from cli.answers import money
from cli.reason_page import reason_page
from core import labels
from core.api.objects import JsonObject
from core.model.plan import Blocked, BufferRoom, Command, Cost, DisruptionPlan, Plan, PlannedClaim
from core.model.values import resources
from core.model.values.quantity import dollars
from core.model.values.requirements import Requirement
from core.model.values.taints import Taint

API_VERSION: Final = "fleetwright.dev/v1"


def plan_document(plan: Plan) -> JsonObject:
    """Return `kind: Plan` without its timing; with `buffers` only if there are capacity buffers."""
    document = {
        "apiVersion": API_VERSION,
        "kind": "Plan",
        "now": rfc3339(plan.now),
        "nodeClaims": [claim_document(claim) for claim in plan.claims],
        "bindings": [{"pod": binding.pod, "node": binding.node} for binding in plan.bindings],
        "unschedulable": [
            {"pod": found.pod, "reason": found.reason, "message": found.message, "page": reason_page(found.reason)}
            for found in plan.unschedulable
        ],
        "cost": _cost(plan.cost) | {"spotHourly": dollars(_spot_price(plan.claims))},
    }
    return document | ({"buffers": [_room(room) for room in plan.buffers]} if plan.buffers else {})


def disruption_document(plan: DisruptionPlan) -> JsonObject:
    """`kind: DisruptionPlan`."""
    bound = plan.cost.lower_bound
    return {
        "apiVersion": API_VERSION,
        "kind": "DisruptionPlan",
        "now": rfc3339(plan.now),
        "commands": [_command(command) for command in plan.commands],
        "blocked": [_blocked(found) for found in plan.blocked],
        "budgets": {pool: dict(by_reason) for pool, by_reason in plan.budgets.items()},
        "cost": {
            "before": dollars(plan.cost.before),
            "after": dollars(plan.cost.after),
            "lowerBound": None if bound is None else dollars(bound),
        },
    }


def claim_document(claim: PlannedClaim) -> JsonObject:
    """Return one node to launch, with `bufferPods` only if it is for capacity buffers, `commitment` only if one covers it."""
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
        "resources": resources.render(claim.resources),
        "pods": list(claim.pods),
        "price": dollars(claim.price),
    }
    rooms = {"bufferPods": list(claim.buffer_pods)} if claim.buffer_pods else {}
    return document | rooms | ({"commitment": claim.commitment} if claim.commitment else {})


def rfc3339(moment: datetime) -> str:
    """Format a time in UTC like Kubernetes, with fractions of a second only if there are any."""
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _command(command: Command) -> JsonObject:
    from core.disruption.consolidation.payback import payback_minutes  # a plan disrupts nothing

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


def _blocked(found: Blocked) -> JsonObject:
    document: JsonObject = {
        "node": found.node,
        "reason": found.reason,
        "message": found.message,
        "page": reason_page(found.reason),
    }
    return document | ({"savings": dollars(found.savings)} if found.savings else {})


def _room(room: BufferRoom) -> JsonObject:
    return {
        "buffer": room.buffer,
        "onExistingNodes": room.on_existing,
        "onNewNodes": room.on_new,
        "withoutRoom": room.without_room,
    }


def _cost(cost: Cost) -> JsonObject:
    """Return the cost; `gap` is the share of it above the bound."""
    if cost.lower_bound is None:
        return {"hourly": dollars(cost.hourly), "lowerBound": None, "gap": None}
    gap = (cost.hourly - cost.lower_bound) / cost.hourly if cost.hourly else 0.0
    return {"hourly": dollars(cost.hourly), "lowerBound": dollars(cost.lower_bound), "gap": money.amount(gap)}


def _spot_price(claims: Iterable[PlannedClaim]) -> int:
    """Return nano-dollars per hour of nodes launched as spot: reservations come first, and spot before on-demand."""
    return sum(c.price for c in claims if labels.SPOT in c.capacity_types and labels.RESERVED not in c.capacity_types)


def _taint(taint: Taint) -> JsonObject:
    written = {"key": taint.key, "effect": taint.effect}
    return written | ({"value": taint.value} if taint.value else {})


def _requirement(requirement: Requirement) -> list[JsonObject]:
    return requirement.to_manifest()
