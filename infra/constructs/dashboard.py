"""Two dashboards: operations (pending, completed and failed work) for the person on call, money for the person who pays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.constructs.function import ProvisionerFunction
from infra.constructs.queues import Queues
from installation.metric_names import NAMESPACE

PERIOD = cdk.Duration.minutes(1)


@dataclass(frozen=True, slots=True)
class Graph:
    """One graph of our own metrics, a line each."""

    title: str
    metrics: tuple[str, ...]
    statistic: str = "Maximum"


OPERATIONS: Final = (
    Graph("Pods pending and unschedulable", ("PendingPods", "UnschedulablePods")),
    Graph("Nodes: claims and instances", ("Claims", "Instances")),
    Graph("Launched and terminated", ("DecisionsLaunch", "InstancesTerminated"), "Sum"),
    Graph("Disrupted, expired, interrupted", ("CommandsStarted", "DecisionsExpire", "DecisionsInterrupt"), "Sum"),
    Graph("Launches refused for capacity, or denied", ("RefusedLaunches", "DeniedLaunches"), "Sum"),
    Graph("Launches denied while pods wait, and because of quotas", ("LaunchDenials", "QuotaDenials")),
    Graph("Drains without progress", ("DrainsBlocked", "DrainsBlockedForADay")),
    Graph(
        "Calls, runs and searches that failed",
        ("PortErrors", "DeniedCalls", "UnpermittedCalls", "FailedRuns", "FailedImprovements", "LedgerFailures"),
        "Sum",
    ),
    Graph("Stopped by a brake", ("Stopped",), "Sum"),
    Graph("Sweeps that have not been clean for half an hour", ("StaleSweeps",)),
    Graph(
        "Objects that cannot be used, and fields without effect",
        ("InvalidNodePools", "InvalidNodeClasses", "UnknownFields"),
    ),
    Graph("Seconds from an audit event to us", ("AuditLagSeconds",)),
)
"""Graphs of the operations dashboard, three per row."""

MONEY: Final = (
    Graph("Price of the fleet, thousandths of a dollar per hour", ("FleetMillidollarsPerHour",)),
    Graph(
        "New nodes of a plan and the least they could cost, millionths of a dollar per hour",
        ("PlannedMicrodollars", "BoundMicrodollars"),
    ),
    Graph("NodePools whose budgets have been closed for a week", ("BudgetsClosedForAWeek",)),
    Graph("Nodes", ("Claims",)),
    Graph("Launched and terminated", ("DecisionsLaunch", "InstancesTerminated"), "Sum"),
    Graph("Commands that make it cheaper, and interruptions", ("CommandsStarted", "DecisionsInterrupt"), "Sum"),
    Graph("Launches refused for capacity", ("RefusedLaunches",), "Sum"),
    Graph("Caps that would be nearly spent at the end of their day or month", ("CapsNearlySpent",)),
    Graph(
        "Forecast room that was used in percent, and ramps without room", ("ForecastUsedPercent", "ForecastsStopped")
    ),
)
"""Graphs of the money dashboard, two per row."""


def service_name(cluster: str) -> str:
    """Return the functions' service name in logs and metrics."""
    return f"fleetwright-{cluster}"


class Dashboards(Construct):
    """The CloudWatch dashboards: `name` for operations, `name`-money."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        cluster: str,
        name: str,
        functions: Sequence[ProvisionerFunction],
        queues: Queues,
    ) -> None:
        super().__init__(scope, construct_id)
        self._service = service_name(cluster)
        page = cloudwatch.Dashboard(self, "Page", dashboard_name=name)
        page.add_widgets(*(self._graph(graph, width=8) for graph in OPERATIONS))
        page.add_widgets(
            self._functions("Errors", functions, "errors"),
            self._functions("Duration, 99th percentile", functions, "duration"),
            self._backlog(queues),
        )
        money = cloudwatch.Dashboard(self, "Money", dashboard_name=f"{name}-money")
        money.add_widgets(*(self._graph(graph, width=12) for graph in MONEY))

    def _graph(self, graph: Graph, *, width: int) -> cloudwatch.GraphWidget:
        lines: list[cloudwatch.IMetric] = [
            cloudwatch.Metric(
                namespace=NAMESPACE,
                metric_name=metric,
                dimensions_map={"service": self._service},
                statistic=graph.statistic,
                period=PERIOD,
                label=metric,
            )
            for metric in graph.metrics
        ]
        return cloudwatch.GraphWidget(title=graph.title, left=lines, width=width)

    def _functions(self, title: str, functions: Sequence[ProvisionerFunction], what: str) -> cloudwatch.GraphWidget:
        lines: list[cloudwatch.IMetric] = [
            f.function.metric_errors(period=PERIOD, label=f.spec.name)
            if what == "errors"
            else f.function.metric_duration(period=PERIOD, statistic="p99", label=f.spec.name)
            for f in functions
        ]
        return cloudwatch.GraphWidget(title=title, left=lines, width=8)

    def _backlog(self, queues: Queues) -> cloudwatch.GraphWidget:
        lines: list[cloudwatch.IMetric] = [
            queue.metric_approximate_age_of_oldest_message(period=PERIOD, label=name)
            for name, queue in sorted(queues.by_name.items())
        ]
        return cloudwatch.GraphWidget(title="Age of the oldest message, seconds", left=lines, width=8)
