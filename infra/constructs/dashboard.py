"""One page for whoever is on call: is anything pending, what was launched and why not, what it costs, what failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from infra.constructs.function import ProvisionerFunction
from infra.constructs.queues import Queues
from lambdas.observability import NAMESPACE

PERIOD = cdk.Duration.minutes(1)


@dataclass(frozen=True, slots=True)
class _Graph:
    """One graph of our own metrics, a line each."""

    title: str
    metrics: tuple[str, ...]
    statistic: str = "Maximum"


_ROWS: Final = (
    (
        _Graph("Pods pending and unschedulable", ("PendingPods", "UnschedulablePods")),
        _Graph("Nodes: claims and instances", ("Claims", "Instances")),
        _Graph("Price of the fleet, thousandths of a dollar per hour", ("FleetMillidollarsPerHour",)),
    ),
    (
        _Graph("Launched and terminated", ("DecisionsLaunch", "InstancesTerminated"), "Sum"),
        _Graph("Disrupted, expired, interrupted", ("DecisionsDisrupt", "DecisionsExpire", "DecisionsInterrupt"), "Sum"),
        _Graph("Launches refused for capacity, or denied", ("RefusedLaunches", "DeniedLaunches"), "Sum"),
    ),
    (
        _Graph("Objects that cannot be used", ("InvalidNodePools", "InvalidNodeClasses")),
        _Graph("Seconds from an audit event to us", ("AuditLagSeconds",)),
        _Graph(
            "Calls, runs and searches that failed",
            ("PortErrors", "DeniedCalls", "FailedRuns", "FailedImprovements"),
            "Sum",
        ),
    ),
    (
        _Graph(
            "New nodes of a plan and the least they could cost, millionths of a dollar per hour",
            ("PlannedMicrodollars", "BoundMicrodollars"),
        ),
        _Graph("Stopped by a brake", ("Stopped",), "Sum"),
        _Graph("Seconds since the oldest clean sweep", ("OldestCleanSweepSeconds",)),
    ),
)


def service_name(cluster: str) -> str:
    """What the functions of a cluster call themselves in logs and metrics."""
    return f"fleetwright-{cluster}"


class Dashboard(Construct):
    """The CloudWatch dashboard."""

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
        for row in _ROWS:
            page.add_widgets(*(self._graph(graph) for graph in row))
        page.add_widgets(
            self._functions("Errors", functions, "errors"),
            self._functions("Duration, 99th percentile", functions, "duration"),
            self._backlog(queues),
        )

    def _graph(self, graph: _Graph) -> cloudwatch.GraphWidget:
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
        return cloudwatch.GraphWidget(title=graph.title, left=lines, width=8)

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
            pair.queue.metric_approximate_age_of_oldest_message(period=PERIOD, label=name)
            for name, pair in sorted(queues.by_name.items())
        ]
        return cloudwatch.GraphWidget(title="Age of the oldest message, seconds", left=lines, width=8)
