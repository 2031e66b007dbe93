"""Defines every alarm: condition, threshold and destination. docs/how-to/alarms.md describes the response to each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from constructs import Construct

from infra.config import ClusterConfig
from infra.constructs.function import ProvisionerFunction
from infra.constructs.queues import Queues
from infra.constructs.trust import for_this_account
from lambdas import metric_names
from lambdas.observability import NAMESPACE

RUNBOOK: Final = "docs/how-to/alarms.md"
MARKET_READER: Final = "refresh_catalogue"
FIVE_MINUTES: Final = cdk.Duration.minutes(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """An alarm on one of our own metrics, over five minutes.

    Attributes:
        of, periods: How many of how many periods must be beyond the threshold.
        silence_is_bad: Whether every run writes the metric, so that missing data is the worst case.
    """

    name: str
    metric: str
    says: str
    threshold: int = 1
    statistic: str = "Sum"
    of: int = 1
    periods: int = 1
    silence_is_bad: bool = False


_WATCHES: Final = (
    _Watch(
        name="no-clean-run",
        metric=metric_names.OLDEST_CLEAN_SWEEP,
        says="reconcile has not run to its end for five minutes, or one of its sweeps has not been clean for half an hour",
        threshold=1800,
        statistic="Maximum",
        silence_is_bad=True,
    ),
    _Watch(
        name="failed-runs",
        metric=metric_names.FAILED_RUNS,
        says="functions keep failing",
        threshold=2,
        of=2,
        periods=3,
    ),
    _Watch(
        name="denied",
        metric=metric_names.DENIED_CALLS,
        says="AWS or the API server refuses a call for good: a permission, a quota or a reference",
        of=2,
        periods=3,
    ),
    _Watch(
        name="launches-denied",
        metric=metric_names.LAUNCH_DENIALS,
        says="EC2 denies launches from an EC2NodeClass for which pods wait",
        statistic="Maximum",
        of=2,
        periods=2,
    ),
    _Watch(
        name="prices-estimated",
        metric=metric_names.ESTIMATED_PRICES,
        says="the price list cannot be read, so plans use estimates",
        statistic="Maximum",
        of=3,
        periods=3,
    ),
    _Watch(
        name="quota-short",
        metric=metric_names.QUOTA_DENIALS,
        says="a vCPU quota of the account keeps pods waiting",
        statistic="Maximum",
        of=2,
        periods=3,
    ),
    _Watch(
        name="budgets-closed",
        metric=metric_names.BUDGETS_CLOSED_FOR_A_WEEK,
        says="the budgets of a NodePool have let no node go for a week",
        statistic="Maximum",
    ),
    _Watch(
        name="brakes-engaged",
        metric=metric_names.STOPPED,
        says="a brake holds the functions back",
        of=2,
        periods=3,
    ),
    _Watch(
        name="brakes-unreadable",
        metric=metric_names.stopped_by("BrakeUnreadable"),
        says="a brake cannot be read, so disruption is paused",
        of=2,
        periods=3,
    ),
    _Watch(
        name="breakers-open",
        metric=metric_names.stopped_by("NodePoolBreakerOpen"),
        says="new nodes of a NodePool do not join, so its working nodes are kept",
    ),
    _Watch(
        name="unknown-instances",
        metric=metric_names.SWEEP_BRAKE,
        says="many instances belong to no claim: the table may be lost or the wrong one, so nothing is ended",
    ),
    _Watch(
        name="drains-blocked",
        metric=metric_names.DRAINS_BLOCKED_FOR_A_DAY,
        says="a node that is to go has lost no pod for a day",
        statistic="Maximum",
    ),
    _Watch(
        name="rollouts-stopped",
        metric=metric_names.ROLLOUTS_STOPPED,
        says="what replaces the drifted nodes of a NodePool does not become ready, so the others stay",
        statistic="Maximum",
    ),
)
"""Thresholds are reached at or above."""


class Alarms(Construct):
    """All alarms of a cluster, and the topic that they are sent to: a given one, or one of the stack's own."""

    def __init__(self, scope: Construct, construct_id: str, *, config: ClusterConfig, service: str) -> None:
        super().__init__(scope, construct_id)
        self._cluster = config.cluster
        self._service = service
        if config.alarm_topic_arn:
            self.topic: sns.ITopic = sns.Topic.from_topic_arn(self, "Topic", config.alarm_topic_arn)
        else:
            self.topic = sns.Topic(self, "Topic", display_name=f"Fleetwright on {self._cluster}", enforce_ssl=True)
            # A topic policy replaces the default one, under which everything in the account may publish.
            self.topic.grant_publish(for_this_account(self, "cloudwatch.amazonaws.com"))
        if config.alarm_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(config.alarm_email))

    def watch(self, functions: Sequence[ProvisionerFunction], queues: Queues) -> None:
        """Create every alarm.

        Work that fails three times in a row ends in a queue, so only one function has an alarm of its own.
        """
        for watch in _WATCHES:
            self._on_own_metric(watch)
        self._on_stale_market(next(function for function in functions if function.spec.name == MARKET_READER))
        self._on_dead_letters("failures", queues.failures.metric_approximate_number_of_messages_visible)

    def _on_own_metric(self, watch: _Watch) -> None:
        metric = cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=metric_names.in_cloudwatch(watch.metric),
            dimensions_map={"service": self._service},
            statistic=watch.statistic,
            period=FIVE_MINUTES,
        )
        missing = cloudwatch.TreatMissingData
        self._alarm(
            watch.name,
            metric,
            watch.says,
            threshold=watch.threshold,
            of=watch.of,
            periods=watch.periods,
            missing=missing.BREACHING if watch.silence_is_bad else missing.NOT_BREACHING,
        )

    def _on_stale_market(self, reader: ProvisionerFunction) -> None:
        """The refresh is tried every five minutes; time-outs count as errors too."""
        says = "instance types and prices have not been read for ten minutes"
        self._alarm("market-stale", reader.function.metric_errors(period=FIVE_MINUTES), says, of=2, periods=3)

    def _on_dead_letters(self, name: str, metric: object) -> None:
        says = f"queue {name} holds messages that could not be handled"
        self._alarm(name, metric(period=FIVE_MINUTES, statistic="Maximum"), says)  # type: ignore[operator]  # jsii method

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        says: str,
        *,
        threshold: int = 1,
        of: int = 1,
        periods: int = 1,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> None:
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=f"fleetwright-{self._cluster}-{name}",
            metric=metric,
            threshold=threshold,
            comparison_operator=cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
            evaluation_periods=periods,
            datapoints_to_alarm=of,
            alarm_description=f"Fleetwright on {self._cluster}: {says}. What to do: {RUNBOOK}#{name}",
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(actions.SnsAction(self.topic))
