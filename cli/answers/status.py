"""Answers of `status` and `approve`: documents and tables of NodePools, work in progress and proposals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from cli.answers import plan
from cli.answers.plan import API_VERSION, prices_line, set_aside_lines
from cli.answers.plan import rfc3339 as utc_text
from cli.cluster.organisation import unreadable_text
from cli.terminal import output
from cli.terminal.output import counted, rfc3339
from cli.terminal.style import style
from core import labels
from core.api.objects import JsonObject
from core.approval.proposal import Proposal
from core.brakes import STOPS, Brake
from core.cluster_status import GOES, CapStatus, PoolStatus, cluster_status
from core.commitments import paid_price
from core.ledger.entry import and_groups, command_words
from core.lifecycle.records import ClaimRecord, CommandRecord
from core.model import plan as core_plan
from core.model.plan import NodeClaim
from core.model.pod import GroupSource
from core.model.snapshot import ProvisioningRequest, Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values import quantity
from core.model.values.quantity import dollars
from core.pods import names_group
from core.provisioning_requests import is_booked, own_value
from core.spending import PeriodState

if TYPE_CHECKING:
    from adapters.store import SweepState
    from cli.cluster.own_state import OwnState
    from core.forecast import Forecast


# Shows commands that wait for approval: as data, and as a table.


WAITS = "waits"
APPROVED = "approved"
REJECTED = "rejected"
ENDED = "ended"


def proposal_document(proposal: Proposal, now: datetime) -> dict[str, Any]:
    """Return one proposal; `state`: waits, approved (and begins within a minute), rejected or ended."""
    verdict, end = proposal.verdict, proposal.end
    is_over = end is not None or now >= proposal.expires_at
    return {
        "id": proposal.id,
        "state": ENDED if is_over else _said(proposal),
        "what": and_groups(command_words(proposal.command), proposal.command.groups),
        "reason": proposal.command.reason,
        "why": proposal.why,
        "nodes": list(proposal.command.nodes),
        "moves": len(proposal.command.moves),
        "savings": dollars(proposal.command.savings),
        "decision": proposal.decision or None,
        "proposedAt": rfc3339(proposal.proposed_at),
        "expiresAt": rfc3339(proposal.expires_at),
        "text": proposal.text,
        "verdict": None
        if verdict is None
        else {"approved": verdict.is_approved, "by": verdict.by, "at": rfc3339(verdict.at)},
        "end": None if end is None else {"reason": end.reason, "message": end.message, "at": rfc3339(end.at)},
    }


def proposals_table(proposals: Sequence[dict[str, Any]]) -> str:
    """Format proposals for people."""
    rows = [
        (
            proposal["id"],
            proposal["what"],
            proposal["reason"],
            proposal["moves"],
            proposal["savings"],
            _state(proposal),
            proposal["expiresAt"][5:16].replace("T", " "),
        )
        for proposal in proposals
    ]
    headings = ("PROPOSAL", "WHAT", "WHY", "MOVES", "SAVES $/H", "STATE", "EXPIRES")
    return output.table(headings, rows)


def _state(proposal: dict[str, Any]) -> str:
    if proposal["end"] is not None:
        return f"{proposal['end']['reason']}: {proposal['end']['message']}"
    if proposal["state"] == WAITS:
        return f"waits: {proposal['why']}"
    return "expired" if proposal["state"] == ENDED else f"{proposal['state']} by {proposal['verdict']['by']}"


def _said(proposal: Proposal) -> str:
    """Return what a person has said about a proposal that is not over."""
    return APPROVED if proposal.is_approved else REJECTED if proposal.is_rejected else WAITS


# Builds `kind: Status`, the state of a cluster. Values that only the functions' table knows are null without access to it.


def status_document(snapshot: Snapshot, own_state: OwnState | None, *, cluster: str | None) -> JsonObject:
    """Return the status of the snapshot's cluster, with the functions' view if it was read."""
    status = cluster_status(snapshot)
    records: Mapping[str, ClaimRecord] = own_state.view.claims if own_state is not None else {}
    going = {record.node_name or name: record.deletion.reason for name, record in records.items() if record.deletion}
    hourly, spot = dollars(status.hourly), dollars(status.spot_hourly)
    groups = [plan.group_document(group) for group in running_groups(snapshot)]
    caps = [_cap(cap) for cap in status.caps]
    forecast = own_state.forecast if own_state is not None else None
    return (
        ({"forecast": _ramps(forecast)} if forecast is not None else {})
        | ({"groups": groups} if groups else {})
        | ({"caps": caps} if caps else {})
        | {
            "apiVersion": API_VERSION,
            "kind": "Status",
            "now": utc_text(snapshot.now),
            "cluster": cluster,
            "cost": {
                "hourly": hourly,
                "monthly": plan.cents(plan.a_month(hourly)),
                "spotHourly": spot,
            },
            "pendingPods": list(status.pending_pods),
            "nodePools": [_pool(pool, going) for pool in status.pools],
            "foreignNodes": status.foreign_nodes,
            "claims": _claims(snapshot, records),
            "commands": None if own_state is None else [_command(command) for command in own_state.view.commands],
            "proposals": None
            if own_state is None or own_state.proposals is None
            else [proposal_document(proposal, snapshot.now) for proposal in own_state.proposals],
            "brakes": None if own_state is None else [_brake(brake) for brake in own_state.brakes.brakes],
            "breakers": None
            if own_state is None
            else [
                _breaker(breaker)
                for breaker in own_state.breakers
                if breaker.failures or breaker.open_until is not None
            ],
            "sweeps": None if own_state is None else _sweeps(own_state.sweeps),
        }
    )


def running_groups(snapshot: Snapshot) -> list[core_plan.PlannedGroup]:
    """Return the groups of pods that start together: how many members have a node, where, and what these nodes cost."""
    if not snapshot.provisioning_requests and not any(map(names_group, snapshot.pods)):
        return []
    from core.gangs import gangs_of  # most clusters have none

    nodes = {state.name: state for state in state_nodes(snapshot)}
    groups = []
    for gang in gangs_of(snapshot):
        there = {pod.node_name: nodes[pod.node_name] for pod in gang.pods if pod.node_name in nodes}
        zones = {state.labels.get(labels.ZONE, "") for state in there.values()} - {""}
        groups.append(
            core_plan.PlannedGroup(
                name=gang.name,
                source=gang.source,
                members=gang.total,
                minimum=gang.minimum,
                placed=len(gang.settled),
                domain={labels.ZONE: min(zones)} if len(zones) == 1 else {},
                hourly=sum(paid_price(state, snapshot) for state in there.values() if state.is_managed),
                reason=gang.refusal.reason if gang.refusal is not None else "",
                message=gang.refusal.message if gang.refusal is not None else "",
            )
        )
    return groups + [_booked(request) for request in snapshot.provisioning_requests if is_booked(request, snapshot.now)]


def _booked(request: ProvisioningRequest) -> core_plan.PlannedGroup:
    """Return a ProvisioningRequest for whose pods room is kept."""
    pods = sum(pod_set.pods for pod_set in request.pod_sets)
    domain = {labels.PROVISIONING_REQUEST: own_value(request)} if request.has_own_nodes else {}
    return core_plan.PlannedGroup(
        name=f"{request.namespace}/{request.name}",
        source=GroupSource.PROVISIONING_REQUEST,
        members=pods,
        minimum=pods,
        placed=pods,
        domain=domain,
    )


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
        "nextWindow": None if change is None else {"at": utc_text(change.at), "allowed": dict(change.allowed)},
        "invalidBudget": pool.invalid_budget or None,
        "paused": pool.paused or None,
        "rollout": pool.rollout or None,
    }


def _cap(cap: CapStatus) -> JsonObject:
    return {
        "name": cap.name,
        "limits": quantity.render_resources(cap.limits),
        "used": quantity.render_resources(cap.used),
        "periods": [_period(state) for state in cap.periods],
    }


def _period(state: PeriodState) -> JsonObject:
    return {
        "period": state.period,
        "limit": plan.cents(dollars(state.limit)),
        "spent": plan.cents(dollars(state.spent)),
        "forecast": plan.cents(dollars(state.forecast)),
        "percent": state.percent,
        "endsAt": utc_text(state.ends_at),
        "engaged": sorted({name for action in state.engaged for name in action.do}),
    }


def _claims(snapshot: Snapshot, records: Mapping[str, ClaimRecord]) -> list[JsonObject]:
    """Return all our nodes, by the name of their claims."""
    ours = ((state.claim, state) for state in state_nodes(snapshot) if state.claim is not None)
    return [
        _claim(claim, state, dollars(paid_price(state, snapshot)), records.get(claim.name))
        for claim, state in sorted(ours, key=lambda claim_and_state: claim_and_state[0].name)
    ]


def _claim(claim: NodeClaim, state: StateNode, hourly: float, record: ClaimRecord | None) -> JsonObject:
    node_labels = state.labels
    deletion = record.deletion if record is not None else None
    return {
        "name": claim.name,
        "nodePool": state.node_pool,
        "phase": _phase(claim, state),
        "node": state.node.name if state.node is not None else None,
        "instanceType": node_labels.get(labels.INSTANCE_TYPE),
        "zone": node_labels.get(labels.ZONE),
        "capacityType": node_labels.get(labels.CAPACITY_TYPE),
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
    return "launched" if claim.is_true(core_plan.LAUNCHED) else "requested"


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
        "createdAt": utc_text(record.created_at),
        "since": utc_text(record.phase_since),
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
                "cleanAt": utc_text(state.clean_at),
                "failures": state.failures,
                "reason": state.reason,
            }
            for name, state in failing
        ],
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else utc_text(moment)


_NAMED_MAX: Final = 3


def status_table(document: JsonObject, *, shows_all: bool = False) -> str:
    """Format the status in groups; with `shows_all` every node, not only those that are starting or leaving."""
    parts = [
        _summary(document),
        _brakes(document),
        _pools(document),
        _caps(document),
        _forecast(document),
        plan.group_rows(document.get("groups", ())),
        _proposals(document),
        _commands(document),
        _claims_table(document, shows_all=shows_all),
        set_aside_lines(document),
        _sweeps_line(document),
        prices_line(document),
    ]
    return "\n\n".join(part for part in parts if part)


def _ramps(forecast: Forecast) -> list[JsonObject]:
    from core.forecast import acts, balance, is_stopped, ramp_sentence  # few installations forecast anything

    balances = [(ramp, balance(ramp)) for ramp in forecast.ramps]
    return [
        {
            "nodePool": ramp.pool,
            "when": ramp.name,
            "pods": ramp.pods,
            "hourly": dollars(ramp.hourly),
            "recentPercent": ramp.recent_percent if ramp.recent else None,
            "acts": acts(ramp, forecast.rules),
            "stopped": is_stopped(ramp, forecast.rules),
            "recentDollars": dollars(lately.cost) if lately.days else None,
            "recentPods": lately.pods if lately.days else None,
            "recentWaitSeconds": int(lately.wait.total_seconds()) if lately.days else None,
            "message": ramp_sentence(ramp, forecast.rules),
        }
        for ramp, lately in balances
    ]


def _forecast(document: JsonObject) -> str:
    rows = [
        (
            ramp["nodePool"],
            ramp["when"],
            ramp["pods"],
            f"{ramp['hourly']:.4f}",
            "" if ramp["recentPercent"] is None else f"{ramp['recentPercent']} %",
            "" if ramp["recentDollars"] is None else f"{ramp['recentDollars']:.4f}",
            "" if ramp["recentPods"] is None else ramp["recentPods"],
            "" if ramp["recentWaitSeconds"] is None else f"{ramp['recentWaitSeconds'] // 60} min",
            "yes" if ramp["acts"] else "stopped" if ramp["stopped"] else "no",
        )
        for ramp in document.get("forecast", ())
    ]
    headings = ("NODEPOOL", "FORECAST", "PODS", "$/H", "USED LATELY", "FOR $", "PODS SERVED", "WAIT SPARED", "ROOM")
    return output.table(headings, rows) if rows else ""


def _caps(document: JsonObject) -> str:
    rows = [
        (cap["name"], name, cap["used"].get(name, "0"), most)
        for cap in document.get("caps", ())
        for name, most in sorted(cap["limits"].items())
    ]
    periods = [
        (
            cap["name"],
            period["period"],
            f"${period['spent']} of ${period['limit']}",
            f"${period['forecast']} ({period['percent']} %)",
            period["endsAt"],
            ", ".join(period["engaged"]),
        )
        for cap in document.get("caps", ())
        for period in cap["periods"]
    ]
    tables = (
        output.table(("CAP", "RESOURCE", "USED", "LIMIT"), rows) if rows else "",
        output.table(("CAP", "PERIOD", "SPENT", "FORECAST", "ENDS", "ENGAGED"), periods) if periods else "",
    )
    return "\n\n".join(filter(None, tables))


def organisation_table(document: JsonObject) -> str:
    """Format one row per cluster, with its account if there are several, and below them what could not be read."""
    shows_account = len({cluster.get("account") for cluster in document["clusters"]}) > 1
    rows = [
        (
            cluster["cluster"],
            *([cluster.get("account") or "-"] if shows_account else []),
            cluster["region"] or "-",
            sum(pool["nodes"] for pool in cluster["nodePools"]),
            cluster["cost"]["hourly"],
            len(cluster["pendingPods"]),
            len(cluster["commands"] or ()),
            len(cluster["proposals"] or ()),
            ", ".join(sorted({brake["brake"] for brake in cluster["brakes"] or ()})) or "-",
        )
        for cluster in document["clusters"]
    ]
    headings = (
        "CLUSTER",
        *(["ACCOUNT"] if shows_account else []),
        "REGION",
        "NODES",
        "$/H",
        "WAITING PODS",
        "COMMANDS",
        "PROPOSALS",
        "BRAKES",
    )
    parts = [output.table(headings, rows), unreadable_text(document["unreadable"])]
    return "\n\n".join(filter(None, parts))


def status_names(document: JsonObject) -> str:
    """Return our nodes as kubectl names objects."""
    return "\n".join(f"node/{claim['node']}" for claim in document["claims"] if claim["node"])


def _summary(document: JsonObject) -> str:
    cost, waiting = document["cost"], document["pendingPods"]
    nodes = sum(pool["nodes"] for pool in document["nodePools"])
    name = f"cluster {document['cluster']}: " if document["cluster"] else ""
    share = f", {cost['spotHourly'] / cost['hourly']:.0%} of it spot" if cost["spotHourly"] else ""
    lines = [f"{style.styled(name + counted(nodes, 'node'), 'bold')}, {plan.rate(cost['hourly'])}{share}"]
    if document["foreignNodes"]:
        lines.append(
            f"{counted(document['foreignNodes'], 'node')} besides that {_is_are(document['foreignNodes'])} not ours"
        )
    if waiting:
        lines.append(f"{counted(len(waiting), 'pod')} without a node: {output.several(waiting, _NAMED_MAX)}")
    return output.wrapped("\n".join(lines))


def _is_are(number: int) -> str:
    return "is" if number == 1 else "are"


def _brakes(document: JsonObject) -> str:
    """Return the engaged brakes; nothing if the functions' view was not read, since silence must not look like an all-clear."""
    if document["brakes"] is None:
        return ""
    lines = [
        f"{style.styled(brake['brake'], 'red')}: {brake['message']} (stops {', '.join(brake['stops'])})"
        for brake in document["brakes"]
    ]
    lines += [
        f"breaker of {b['nodePool']}: {counted(b['failures'], 'new node')} in a row did not join; {b['message']}"
        for b in document["breakers"]
        if not any(brake["nodePool"] == b["nodePool"] for brake in document["brakes"])
    ]
    return output.wrapped("\n".join(lines)) if lines else "no brake is engaged"


def _pools(document: JsonObject) -> str:
    rows = [
        (
            pool["name"],
            f"{pool['nodes']} ({pool['starting']} starting)" if pool["starting"] else str(pool["nodes"]),
            pool["pods"],
            pool["hourly"],
            _budgets(pool["budgets"]),
            output.several([f"{taker['node']} ({taker['why']})" for taker in pool["takenBy"]], _NAMED_MAX) or "-",
            _change(pool["nextWindow"]),
        )
        for pool in document["nodePools"]
    ]
    if not rows:
        return "there is no NodePool"
    notes = [
        f"{pool['name']}: {note}"
        for pool in document["nodePools"]
        for note in (pool["invalidBudget"], pool["paused"], pool["rollout"])
        if note
    ]
    headings = ("NODEPOOL", "NODES", "PODS", "$/H", "MAY GO", "PLACES TAKEN BY", "CHANGES")
    return "\n".join([output.table(headings, rows), *([output.wrapped("\n".join(notes))] if notes else [])])


def _budgets(budgets: Mapping[str, int | None]) -> str:
    """Return how many nodes may go now; reasons with the same number are joined, and one that differs is named alone."""
    numbers: dict[int | None, list[str]] = {}
    for reason, nodes_left in sorted(budgets.items()):
        numbers.setdefault(nodes_left, []).append(reason)
    by_size = sorted(numbers.items(), key=lambda entry: -len(entry[1]))
    if [len(reasons) == 1 for _, reasons in by_size] == [False, True]:
        (common, _), (other, (reason,)) = by_size
        return f"{_number(common)}, but {_number(other)} {reason}"
    return ", ".join(
        _number(nodes_left) if len(numbers) == 1 else f"{_number(nodes_left)} {'/'.join(reasons)}"
        for nodes_left, reasons in numbers.items()
    )


def _number(allowed: int | None) -> str:
    return "any" if allowed is None else str(allowed)


def _change(window: Mapping[str, Any] | None) -> str:
    return "-" if window is None else f"{_short(window['at'])}: {_budgets(window['allowed'])}"


def _proposals(document: JsonObject) -> str:
    if not document["proposals"]:
        return ""
    return f"{proposals_table(document['proposals'])}\n`fleetwright approve ID --cluster {document['cluster']}`"


def _commands(document: JsonObject) -> str:
    commands = document["commands"]
    if not commands:
        return ""
    rows = [
        (
            command["id"],
            command["phase"],
            f"{command['reason']} ({command['method']})",
            output.several(command["nodes"], _NAMED_MAX),
            output.several(command["replacements"], _NAMED_MAX) or "nothing",
            command["savings"],
            _short(command["since"]),
        )
        for command in commands
    ]
    headings = ("COMMAND", "PHASE", "WHY", "NODES THAT GO", "REPLACED BY", "SAVES $/H", "SINCE")
    return output.table(headings, rows)


def _claims_table(document: JsonObject, *, shows_all: bool) -> str:
    shown = [c for c in document["claims"] if shows_all or c["leavingSince"] or c["phase"] != "initialized"]
    rows = [
        (
            claim["name"],
            claim["node"] or "-",
            "/".join(part or "?" for part in (claim["instanceType"], claim["capacityType"], claim["zone"])),
            claim["hourly"],
            _claim_state(claim),
            claim["message"] or "",
        )
        for claim in shown
    ]
    headings = ("NODECLAIM", "NODE", "TYPE", "$/H", "STATE", "LAST TROUBLE")
    return output.table(headings, rows) if rows else ""


def _claim_state(claim: Mapping[str, Any]) -> str:
    if not claim["leavingSince"]:
        return str(claim["phase"])
    return f"leaves since {_short(claim['leavingSince'])}" + (
        f" [{claim['leavingWhy']}]" if claim["leavingWhy"] else ""
    )


def _sweeps_line(document: JsonObject) -> str:
    sweeps = document["sweeps"]
    if sweeps is None or sweeps["cleanAt"] is None:
        return ""
    failing: Sequence[Mapping[str, Any]] = sweeps["failing"]
    if not failing:
        return f"reconcile: everything was in order, last written down {_short(sweeps['cleanAt'])}"
    lines = [
        f"reconcile: {sweep['name']} fails since {_short(sweep['cleanAt'])} ({counted(sweep['failures'], 'round')}): "
        f"{sweep['reason']}"
        for sweep in failing
    ]
    return output.wrapped(style.styled("\n".join(lines), "red"))


def _short(moment: str) -> str:
    """Format a time to the minute, UTC."""
    return f"{datetime.fromisoformat(moment):%m-%d %H:%M}"
