"""Builds `kind: Status`, the state of a cluster. Values that only the functions' table knows are null without access to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from cli.answers import money
from cli.answers.plan_document import API_VERSION, rfc3339
from cli.answers.proposal_document import proposal_document
from core import labels
from core.api.objects import JsonObject
from core.brakes.brake import STOPS, Brake
from core.cluster_status import GOES, PoolStatus, cluster_status
from core.commitments.coverage import paid_price
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model import node_claim
from core.model.node_claim import NodeClaim
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values.quantity import dollars

if TYPE_CHECKING:
    from adapters.store import SweepState
    from cli.cluster.own_state import OwnState


def status_document(snapshot: Snapshot, own: OwnState | None, *, cluster: str | None) -> JsonObject:
    """Return the status of the snapshot's cluster, with the functions' view if it was read."""
    found = cluster_status(snapshot)
    records: Mapping[str, ClaimRecord] = own.view.claims if own is not None else {}
    going = {record.node_name or name: record.deletion.reason for name, record in records.items() if record.deletion}
    hourly, spot = dollars(found.hourly), dollars(found.spot_hourly)
    return {
        "apiVersion": API_VERSION,
        "kind": "Status",
        "now": rfc3339(snapshot.now),
        "cluster": cluster,
        "cost": {
            "hourly": hourly,
            "monthly": money.cents(money.a_month(hourly)),
            "spotHourly": spot,
        },
        "pendingPods": list(found.pending_pods),
        "nodePools": [_pool(pool, going) for pool in found.pools],
        "foreignNodes": found.foreign_nodes,
        "claims": _claims(snapshot, records),
        "commands": None if own is None else [_command(command) for command in own.view.commands],
        "proposals": None
        if own is None or own.proposals is None
        else [proposal_document(proposal, snapshot.now) for proposal in own.proposals],
        "brakes": None if own is None else [_brake(brake) for brake in own.brakes.brakes],
        "breakers": None
        if own is None
        else [_breaker(breaker) for breaker in own.breakers if breaker.failures or breaker.open_until is not None],
        "sweeps": None if own is None else _sweeps(own.sweeps),
    }


def _pool(pool: PoolStatus, going: Mapping[str, str]) -> JsonObject:
    change = pool.next_change
    return {
        "name": pool.name,
        "nodes": pool.nodes,
        "starting": pool.starting,
        "pods": pool.pods,
        "hourly": dollars(pool.hourly),
        "spotHourly": dollars(pool.spot_hourly),
        "budgets": dict(pool.budgets),
        "takenBy": [
            {"node": node.node, "why": going.get(node.node, GOES) if node.why == GOES else node.why}
            for node in pool.counted
        ],
        "nextWindow": None if change is None else {"at": rfc3339(change.at), "allowed": dict(change.allowed)},
        "invalidBudget": pool.invalid_budget or None,
        "paused": pool.paused or None,
        "rollout": pool.rollout or None,
    }


def _claims(snapshot: Snapshot, records: Mapping[str, ClaimRecord]) -> list[JsonObject]:
    """Return all our nodes, by the name of their claims."""
    ours = ((state.claim, state) for state in state_nodes(snapshot) if state.claim is not None)
    return [
        _claim(claim, state, dollars(paid_price(state, snapshot)), records.get(claim.name))
        for claim, state in sorted(ours, key=lambda found: found[0].name)
    ]


def _claim(claim: NodeClaim, state: StateNode, hourly: float, record: ClaimRecord | None) -> JsonObject:
    own = state.labels
    deletion = record.deletion if record is not None else None
    return {
        "name": claim.name,
        "nodePool": state.node_pool,
        "phase": _phase(claim, state),
        "node": state.node.name if state.node is not None else None,
        "instanceType": own.get(labels.INSTANCE_TYPE),
        "zone": own.get(labels.ZONE),
        "capacityType": own.get(labels.CAPACITY_TYPE),
        "hourly": hourly,
        "createdAt": _moment(claim.created_at),
        "leavingSince": _moment(deletion.asked_at if deletion is not None else claim.deleted_at),
        "leavingWhy": deletion.reason if deletion is not None else None,
        "message": (record.message if record is not None else "") or None,
    }


def _phase(claim: NodeClaim, state: StateNode) -> str:
    if state.is_initialized:
        return "initialized"
    if state.is_registered:
        return "registered"
    return "launched" if claim.is_true(node_claim.LAUNCHED) else "requested"


def _command(record: CommandRecord) -> JsonObject:
    return {
        "id": record.id,
        "decision": record.decision or None,
        "phase": record.phase,
        "reason": record.command.reason,
        "method": record.command.method,
        "nodes": list(record.command.nodes),
        "replacements": list(record.replacements or [claim.name for claim in record.command.replacements]),
        "moves": len(record.command.moves),
        "savings": dollars(record.command.savings),
        "createdAt": rfc3339(record.created_at),
        "since": rfc3339(record.phase_since),
    }


def _brake(brake: Brake) -> JsonObject:
    return {
        "brake": brake.kind,
        "message": brake.message,
        "nodePool": brake.node_pool or None,
        "zone": brake.zone or None,
        "stops": [str(action) for action in STOPS[brake.kind]],
    }


def _breaker(breaker: Any) -> JsonObject:
    return {
        "nodePool": breaker.node_pool,
        "failures": breaker.failures,
        "openUntil": _moment(breaker.open_until),
        "message": breaker.message,
    }


def _sweeps(states: Mapping[str, SweepState]) -> JsonObject:
    """Return the state of `reconcile`. `cleanAt`: when all of its sweeps were last clean; null before the first time."""
    failing = [(name, state) for name, state in sorted(states.items()) if state.failures]
    moments: Sequence[datetime] = [state.clean_at for _, state in failing] or [s.clean_at for s in states.values()]
    clean_at = None if not moments else min(moments) if failing else max(moments)
    return {
        "cleanAt": _moment(clean_at),
        "failing": [
            {
                "name": name,
                "cleanAt": rfc3339(state.clean_at),
                "failures": state.failures,
                "reason": state.reason,
            }
            for name, state in failing
        ],
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else rfc3339(moment)
