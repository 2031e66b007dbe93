"""What Prometheus and Grafana read: a cluster's state as metrics, a dashboard of them, and alert rules.

Names that begin with `karpenter_` mean what they mean in Karpenter 1.15, so dashboards for Karpenter show them; all others
begin with `fleetwright_`. Only state is here: sums of events are in CloudWatch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from core import labels
from core.api.objects import JsonObject
from core.calendars import closed_pools
from core.cluster_status import cluster_status
from core.model.snapshot import Snapshot
from core.model.state_node import StateNode, state_nodes
from core.model.values.quantity import CPU, HOURLY, dollars
from core.version import VERSION

if TYPE_CHECKING:
    from cli.cluster.own_state import OwnState

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
"""Prometheus' text format."""

_NODE_LABELS: Final = {
    labels.NODEPOOL: "nodepool",
    labels.INSTANCE_TYPE: "instance_type",
    labels.ZONE: "zone",
    labels.CAPACITY_TYPE: "capacity_type",
    labels.ARCH: "arch",
    labels.OS: "os",
}
"""The labels of Karpenter's node metrics that dashboards group by; it has some twenty."""

HELP: Final[Mapping[str, str]] = {
    "karpenter_cluster_state_node_count": "Nodes of the cluster, those of others included",
    "karpenter_cluster_utilization_percent": "Requests of pods, in percent of what nodes offer",
    "karpenter_nodepools_limit": "Limits of a NodePool",
    "karpenter_nodepools_usage": "Capacity of a NodePool's nodes",
    "karpenter_nodepools_cost_total": "Dollars an hour of a NodePool's nodes, less what commitments cover",
    "karpenter_nodepools_allowed_disruptions": "Nodes that a NodePool's budgets let leave now",
    "karpenter_nodes_allocatable": "What a node offers to pods",
    "karpenter_nodes_total_pod_requests": "What the pods of a node request, DaemonSets included",
    "karpenter_nodes_current_lifetime_seconds": "Age of a node",
    "fleetwright_build_info": "The version that made the observation; always 1",
    "fleetwright_observed_timestamp_seconds": "When the cluster was read",
    "fleetwright_fleet_dollars_per_hour": "Dollars an hour of our nodes",
    "fleetwright_pending_pods": "Pods that wait for a node",
    "fleetwright_nodepool_nodes": "Nodes of a NodePool, those that have not joined included",
    "fleetwright_nodepool_starting_nodes": "Nodes of a NodePool that are not ready for pods yet",
    "fleetwright_nodepool_paused": "1 while disruption of a NodePool's nodes is paused, or its rollout is held back",
    "fleetwright_cap_limit": "Limits of a Calendar's cap",
    "fleetwright_cap_usage": "What a Calendar's cap counts of nodes",
    "fleetwright_cap_period_limit_dollars": "What nodes may cost in a day or month by a Calendar's cap",
    "fleetwright_cap_period_spent_dollars": "What they have cost in the present one",
    "fleetwright_cap_period_forecast_dollars": "What it costs in the end if what runs now runs on",
    "fleetwright_foreign_nodes": "Nodes that Fleetwright does not manage",
    "fleetwright_commands": "Disruption commands in progress",
    "fleetwright_proposals_waiting": "Commands that wait for approval",
    "fleetwright_brake_engaged": "1 for each brake that stops something now",
    "fleetwright_failing_sweeps": "Repeated checks of the functions that fail",
    "fleetwright_forecast_ramps": "Recurring ramps, by whether they get room ahead of them",
    "fleetwright_forecast_room_pods": "Pods for which a forecast keeps room now; with forecast: shadow, would keep",
    "fleetwright_forecast_room_dollars_per_hour": "What new nodes for that room cost an hour",
    "fleetwright_forecast_used_percent": "How much of the room of the last days pods used",
    "fleetwright_forecast_recent_dollars": "What the room of the last days costs, kept or not",
}
"""Metric → what it counts. All are gauges."""

OF_FUNCTIONS: Final = (
    "fleetwright_commands",
    "fleetwright_proposals_waiting",
    "fleetwright_brake_engaged",
    "fleetwright_failing_sweeps",
    "fleetwright_forecast_ramps",
    "fleetwright_forecast_room_pods",
    "fleetwright_forecast_room_dollars_per_hour",
    "fleetwright_forecast_used_percent",
    "fleetwright_forecast_recent_dollars",
)
"""Metrics that only an observation of the functions has (`--cluster`)."""


class Sample(NamedTuple):
    """One value of a metric."""

    name: str
    labels: Mapping[str, str]
    value: float


def exposition(snapshot: Snapshot, own_state: OwnState | None) -> str:
    """Return the cluster's state in Prometheus' text format."""
    by_name: dict[str, list[Sample]] = {name: [] for name in HELP}
    for sample in (
        *_of_cluster(snapshot),
        *_of_pools(snapshot),
        *_of_caps(snapshot),
        *_of_nodes(snapshot),
        *_of_functions(own_state),
        *_of_forecast(snapshot, own_state),
    ):
        by_name[sample.name].append(sample)
    lines: list[str] = []
    for name, samples in by_name.items():
        if samples:
            lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge", *map(_line, samples)]
    return "\n".join(lines) + "\n"


def _line(sample: Sample) -> str:
    pairs = ",".join(f'{name}="{_escaped(text)}"' for name, text in sample.labels.items())
    return f"{sample.name}{{{pairs}}} {sample.value:.15g}" if pairs else f"{sample.name} {sample.value:.15g}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _of_cluster(snapshot: Snapshot) -> Iterator[Sample]:
    status, states = cluster_status(snapshot), state_nodes(snapshot)
    yield Sample("fleetwright_build_info", {"version": VERSION}, 1)
    yield Sample("fleetwright_observed_timestamp_seconds", {}, snapshot.now.timestamp())
    yield Sample("karpenter_cluster_state_node_count", {}, len(states))
    yield Sample("fleetwright_foreign_nodes", {}, status.foreign_nodes)
    yield Sample("fleetwright_pending_pods", {}, len(status.pending_pods))
    other = status.hourly - status.spot_hourly
    yield Sample("fleetwright_fleet_dollars_per_hour", {"capacity_type": "spot"}, dollars(status.spot_hourly))
    yield Sample("fleetwright_fleet_dollars_per_hour", {"capacity_type": "other"}, dollars(other))
    joined = [state for state in states if state.node is not None]
    offered = _sum(state.allocatable for state in joined)
    requested = _sum(_requested(state) for state in joined)
    for resource, amount in sorted(offered.items()):
        if amount:
            percent = 100 * requested.get(resource, 0) / amount
            yield Sample("karpenter_cluster_utilization_percent", {"resource_type": _resource(resource)}, percent)


def _of_pools(snapshot: Snapshot) -> Iterator[Sample]:
    limits = {pool.name: pool.limits for pool in snapshot.node_pools}
    for pool in cluster_status(snapshot).pools:
        named = {"nodepool": pool.name}
        pool_states = [state for state in state_nodes(snapshot) if state.is_managed and state.node_pool == pool.name]
        yield Sample("fleetwright_nodepool_nodes", named, pool.nodes)
        yield Sample("fleetwright_nodepool_starting_nodes", named, pool.starting)
        yield Sample("fleetwright_nodepool_paused", named, bool(pool.paused or pool.rollout or pool.invalid_budget))
        yield Sample("karpenter_nodepools_cost_total", named, dollars(pool.hourly))
        for reason, budget in sorted(pool.budgets.items()):
            allowed = pool.nodes if budget is None else budget
            yield Sample("karpenter_nodepools_allowed_disruptions", {**named, "reason": reason.lower()}, allowed)
        used = {**_sum(state.capacity for state in pool_states), "nodes": pool.nodes}
        for name, amounts in (("limit", limits.get(pool.name, {})), ("usage", used)):
            for resource, amount in sorted(amounts.items()):
                kind = {**named, "resource_type": _resource(resource)}
                yield Sample(f"karpenter_nodepools_{name}", kind, _in_units(resource, amount))


def _of_caps(snapshot: Snapshot) -> Iterator[Sample]:
    for cap in cluster_status(snapshot).caps:
        for name, amounts in (("limit", cap.limits), ("usage", cap.used)):
            for resource, amount in sorted(amounts.items()):
                kind = {"cap": cap.name, "resource_type": _resource(resource)}
                yield Sample(f"fleetwright_cap_{name}", kind, _in_units(resource, amount))
        for state in cap.periods:
            named = {"cap": cap.name, "period": state.period.lower()}
            yield Sample("fleetwright_cap_period_limit_dollars", named, dollars(state.limit))
            yield Sample("fleetwright_cap_period_spent_dollars", named, dollars(state.spent))
            yield Sample("fleetwright_cap_period_forecast_dollars", named, dollars(state.forecast))


def _of_nodes(snapshot: Snapshot) -> Iterator[Sample]:
    for state in state_nodes(snapshot):
        if state.node is None:
            continue
        named = {"node_name": state.name, "managed": str(state.is_managed).lower()}
        named |= {short: state.labels.get(label, "") for label, short in _NODE_LABELS.items()}
        if state.node.created_at is not None:
            age = (snapshot.now - state.node.created_at).total_seconds()
            yield Sample("karpenter_nodes_current_lifetime_seconds", named, age)
        for name, amounts in (("allocatable", state.allocatable), ("total_pod_requests", _requested(state))):
            for resource, amount in sorted(amounts.items()):
                kind = {**named, "resource_type": _resource(resource)}
                yield Sample(f"karpenter_nodes_{name}", kind, _in_units(resource, amount))


def _of_functions(own_state: OwnState | None) -> Iterator[Sample]:
    if own_state is None:
        return
    commands = Counter((str(command.command.reason), str(command.phase)) for command in own_state.view.commands)
    for (reason, phase), count in sorted(commands.items()):
        yield Sample("fleetwright_commands", {"reason": reason, "phase": phase}, count)
    yield Sample("fleetwright_proposals_waiting", {}, len(own_state.proposals or ()))
    engaged = {(str(brake.kind), brake.node_pool, brake.zone) for brake in own_state.brakes.brakes}
    for kind, pool, zone in sorted(engaged):
        yield Sample("fleetwright_brake_engaged", {"brake": kind, "nodepool": pool, "zone": zone}, 1)
    yield Sample("fleetwright_failing_sweeps", {}, sum(bool(state.failures) for state in own_state.sweeps.values()))


def _of_forecast(snapshot: Snapshot, own_state: OwnState | None) -> Iterator[Sample]:
    """Yield what the functions forecast for NodePools; a closed one keeps no room."""
    forecast = own_state.forecast if own_state is not None else None
    if forecast is None:
        return
    from core.forecast import acts, balance, due, is_stopped  # few installations forecast anything

    rules = forecast.rules
    kept = {ramp.pool: ramp for ramp in due(forecast, snapshot.now)}
    for pool in sorted({ramp.pool for ramp in forecast.ramps}):
        named = {"nodepool": pool}
        of_pool = [ramp for ramp in forecast.ramps if ramp.pool == pool]
        states = Counter(
            "room" if acts(ramp, rules) else "stopped" if is_stopped(ramp, rules) else "unused" for ramp in of_pool
        )
        for state in ("room", "stopped", "unused"):
            yield Sample("fleetwright_forecast_ramps", {**named, "state": state}, states[state])
        ramp = None if pool in closed_pools(snapshot) else kept.get(pool)
        yield Sample("fleetwright_forecast_room_pods", named, 0 if ramp is None else ramp.pods)
        hourly = 0 if ramp is None else dollars(ramp.hourly)
        yield Sample("fleetwright_forecast_room_dollars_per_hour", named, hourly)
        room = sum(day.room for ramp in of_pool for day in ramp.recent)
        if room:
            taken = sum(balance(ramp).pods for ramp in of_pool)
            yield Sample("fleetwright_forecast_used_percent", named, 100 * taken / room)
        cost = sum(balance(ramp).cost for ramp in of_pool)
        yield Sample("fleetwright_forecast_recent_dollars", named, dollars(cost))


def _requested(state: StateNode) -> dict[str, int]:
    return _sum(pod.spec.requests for pod in state.pods)


def _sum(amounts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for addend in amounts:
        total.update(addend)
    return dict(total)


def _resource(name: str) -> str:
    """Return a resource's name as Karpenter writes it in labels."""
    return name.lower().replace("-", "_")


def _in_units(resource: str, amount: int) -> float:
    """Return CPU in cores, prices in dollars, everything else in its base unit."""
    if resource == HOURLY:
        return dollars(amount)
    return amount / 1000 if resource == CPU else amount


# A dashboard for Grafana, as its JSON model. Panels name metrics of `HELP` only; a test parses each expression.


class DashboardPanel(NamedTuple):
    """One panel: its title, unit, and the lines, each a legend and an expression."""

    title: str
    unit: str
    lines: Mapping[str, str]
    kind: str = "timeseries"


_HOURS_A_MONTH: Final = 730

PANELS: Final = (
    DashboardPanel(
        "Cost a month", "currencyUSD", {"": f"sum(fleetwright_fleet_dollars_per_hour) * {_HOURS_A_MONTH}"}, "stat"
    ),
    DashboardPanel("Nodes", "short", {"": "karpenter_cluster_state_node_count"}, "stat"),
    DashboardPanel("Pods without a node", "short", {"": "fleetwright_pending_pods"}, "stat"),
    DashboardPanel("Brakes engaged", "short", {"": "count(fleetwright_brake_engaged) or vector(0)"}, "stat"),
    DashboardPanel("Dollars an hour", "currencyUSD", {"{{nodepool}}": "karpenter_nodepools_cost_total"}),
    DashboardPanel("Nodes by NodePool", "short", {"{{nodepool}}": "fleetwright_nodepool_nodes"}),
    DashboardPanel(
        "Requested, percent of what nodes offer",
        "percent",
        {"{{resource_type}}": "karpenter_cluster_utilization_percent"},
    ),
    DashboardPanel("Pods without a node", "short", {"pods": "fleetwright_pending_pods"}),
    DashboardPanel("Nodes that are starting", "short", {"{{nodepool}}": "fleetwright_nodepool_starting_nodes"}),
    DashboardPanel(
        "Limits used, percent",
        "percent",
        {
            "{{nodepool}} {{resource_type}}": "100 * karpenter_nodepools_usage"
            " / on (nodepool, resource_type) (karpenter_nodepools_limit > 0)"
        },
    ),
    DashboardPanel(
        "Nodes that budgets let leave", "short", {"{{nodepool}} {{reason}}": "karpenter_nodepools_allowed_disruptions"}
    ),
    DashboardPanel("Commands in progress", "short", {"{{reason}} {{phase}}": "fleetwright_commands"}),
    DashboardPanel(
        "Nodes by type and capacity",
        "short",
        {
            "{{instance_type}} {{capacity_type}}": "count by (instance_type, capacity_type)"
            ' (karpenter_nodes_allocatable{resource_type="cpu"})'
        },
    ),
    DashboardPanel(
        "Age of the oldest node", "s", {"{{nodepool}}": "max by (nodepool) (karpenter_nodes_current_lifetime_seconds)"}
    ),
    DashboardPanel("Brakes", "short", {"{{brake}} {{nodepool}} {{zone}}": "fleetwright_brake_engaged"}),
    DashboardPanel("Forecast room, pods", "short", {"{{nodepool}}": "fleetwright_forecast_room_pods"}),
    DashboardPanel(
        "Forecast room, dollars an hour", "currencyUSD", {"{{nodepool}}": "fleetwright_forecast_room_dollars_per_hour"}
    ),
    DashboardPanel("Forecast room used, percent", "percent", {"{{nodepool}}": "fleetwright_forecast_used_percent"}),
)

_STATS_IN_ROW, _GRAPHS_IN_ROW, _GRID = 4, 3, 24
_STAT_HEIGHT, _GRAPH_HEIGHT = 4, 8


def dashboard() -> JsonObject:
    """Return the dashboard; Grafana asks for the Prometheus data source when it is imported."""
    stats = [panel for panel in PANELS if panel.kind == "stat"]
    graphs = [panel for panel in PANELS if panel.kind != "stat"]
    panels = [_panel(panel, number, _STATS_IN_ROW, _STAT_HEIGHT, 0) for number, panel in enumerate(stats)]
    panels += [
        _panel(panel, number, _GRAPHS_IN_ROW, _GRAPH_HEIGHT, _STAT_HEIGHT) for number, panel in enumerate(graphs)
    ]
    return {
        "uid": "fleetwright",
        "title": "Fleetwright",
        "tags": ["kubernetes", "fleetwright"],
        "timezone": "browser",
        "refresh": "1m",
        "schemaVersion": 39,
        "time": {"from": "now-24h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "label": "Prometheus", "type": "datasource", "query": "prometheus"}]
        },
        "panels": [{"id": number, **panel} for number, panel in enumerate(panels, 1)],
    }


def _panel(panel: DashboardPanel, number: int, in_row: int, height: int, top: int) -> JsonObject:
    width = _GRID // in_row
    place = {"x": number % in_row * width, "y": top + number // in_row * height, "w": width, "h": height}
    targets = [
        {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend}
        for index, (legend, expression) in enumerate(panel.lines.items())
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


# Alert rules for Prometheus, each with the page that says what to do.


class Rule(NamedTuple):
    """An alert: when it fires, after how long, how urgent it is, what it says, and where help is."""

    alert: str
    expression: str
    lasts: str
    severity: str
    summary: str
    page: str


RULES: Final = (
    Rule(
        "FleetwrightPodsWait",
        "fleetwright_pending_pods > 0",
        "15m",
        "warning",
        "{{ $value }} pods have waited for a node for 15 minutes: fleetwright plan says why",
        "docs/how-to/troubleshoot.md",
    ),
    Rule(
        "FleetwrightBrakeEngaged",
        "fleetwright_brake_engaged == 1",
        "10m",
        "warning",
        "brake {{ $labels.brake }} holds something back: fleetwright status says what",
        "docs/reference/brakes.md",
    ),
    Rule(
        "FleetwrightNodePoolPaused",
        "fleetwright_nodepool_paused == 1",
        "1h",
        "info",
        "disruption of NodePool {{ $labels.nodepool }} is paused or its rollout held back",
        "docs/how-to/troubleshoot.md",
    ),
    Rule(
        "FleetwrightNodesDoNotStart",
        "fleetwright_nodepool_starting_nodes > 0",
        "30m",
        "warning",
        "NodePool {{ $labels.nodepool }} has had nodes that are not ready for 30 minutes",
        "docs/how-to/troubleshoot.md",
    ),
    Rule(
        "FleetwrightLimitNearlyReached",
        "karpenter_nodepools_usage / on (nodepool, resource_type) (karpenter_nodepools_limit > 0) > 0.9",
        "15m",
        "warning",
        "NodePool {{ $labels.nodepool }} uses {{ $value | humanizePercentage }} of its limit of {{ $labels.resource_type }}",
        "docs/how-to/steer-a-node-pool.md",
    ),
    Rule(
        "FleetwrightProposalWaits",
        "fleetwright_proposals_waiting > 0",
        "10m",
        "info",
        "{{ $value }} commands wait for approval: fleetwright approve --list",
        "docs/how-to/approve.md",
    ),
    Rule(
        "FleetwrightSweepsFail",
        "fleetwright_failing_sweeps > 0",
        "30m",
        "warning",
        "{{ $value }} repeated checks of the functions fail: fleetwright status says which",
        "docs/how-to/alarms.md",
    ),
    Rule(
        "FleetwrightCostRises",
        "sum(fleetwright_fleet_dollars_per_hour) > 1.5 * sum(avg_over_time(fleetwright_fleet_dollars_per_hour[1d] offset 1d))",
        "1h",
        "warning",
        "the fleet costs more than 1.5 times yesterday's mean",
        "docs/explanation/costs.md",
    ),
    Rule(
        "FleetwrightMetricsOld",
        "time() - fleetwright_observed_timestamp_seconds > 600",
        "5m",
        "warning",
        "the cluster could not be read for ten minutes",
        "docs/how-to/prometheus-and-grafana.md",
    ),
)


def rules() -> JsonObject:
    """Return the rules as a Prometheus rule file."""
    return {"groups": [{"name": "fleetwright", "rules": [_rule(rule) for rule in RULES]}]}


def _rule(rule: Rule) -> JsonObject:
    return {
        "alert": rule.alert,
        "expr": rule.expression,
        "for": rule.lasts,
        "labels": {"severity": rule.severity},
        "annotations": {"summary": rule.summary, "page": rule.page},
    }
