"""Defines every alarm: condition, threshold and destination. docs/how-to/alarms.md describes the response to each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sns_subscriptions as subscriptions
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import ClusterConfig
from infra.constructs.function import ProvisionerFunction
from infra.constructs.queues import Queues
from infra.constructs.trust import for_this_account
from installation import metric_names
from installation.metric_names import NAMESPACE
from installation.wiring import WORK

RUNBOOK: Final = "docs/how-to/alarms.md"
LAST_RESORT: Final = ("reconcile", "disrupt")
"""The function whose clean runs are watched: the first of these that is deployed.

`reconcile` repairs what every other function leaves undone. `mode: shadow` has no `reconcile`; its product are the records of
`disrupt`."""

DISPLAY_NAME_MAX: Final = 100
"""Characters of a topic's display name: emails show it as the sender. A cluster's name alone may have as many."""

FIVE_MINUTES: Final = cdk.Duration.minutes(5)

REFUSED_CALLS: Final = "refused-calls"
"""The alarm of which each refused call is a contributor of its own (docs/engineering/handbook/alarms-and-events.md)."""

MISSING_PERMISSIONS: Final = "missing-permissions"
"""The same for calls without which runs go on. It ends no update: the version before may lack the permission, too."""

LOOPS_STOPPED: Final = "loops-stopped"
"""The alarm on messages that Lambda or we dropped because their chain was too long."""
PARTS_FAILED: Final = "parts-failed"
"""The alarm on parts of a large cluster, which only an installation with `distributeFrom` has."""

LATE_SECONDS: Final = 300
"""The age of a message to `execute` from which it is late."""

_WITHOUT_CONTRIBUTORS: Final = ("eusc-", "us-iso", "eu-iso")
"""Beginnings of regions for which AWS has not announced alarms on several time series: there the sum is watched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Watch:
    """An alarm on the sum of several counts (`metric_names.ALARMS`), in periods of five minutes.

    Attributes:
        of, periods: The alarm goes off if the sum is above zero in `of` of the last `periods` periods.
        rolls_back: Whether the alarm means that the functions themselves fail, so that it ends an update.
    """

    name: str
    says: str
    of: int
    periods: int
    rolls_back: bool = False


_WATCHES: Final = (
    # Three of four periods: a schedule of five minutes may run twice in one period and not in the next.
    _Watch(name="failed-runs", says="a function or a sweep keeps failing", of=3, periods=4, rolls_back=True),
    _Watch(
        name="denied",
        says="something that every decision needs cannot be read: market, rows, brakes",
        of=2,
        periods=3,
        rolls_back=True,
    ),
    _Watch(
        name="stopped-itself",
        says="the functions have stopped themselves and wait for a person",
        of=1,
        periods=1,
        rolls_back=True,
    ),
    _Watch(name="held-back", says="a brake or budget of yours holds the functions back", of=2, periods=3),
    _Watch(name="nodes-stay", says="nodes that must be removed stay, and only a person can help", of=1, periods=1),
)


class Alarms(Construct):
    """All alarms of a cluster, and the topic that they are sent to: the configured one, or one that the stack creates.

    Attributes:
        rolling_back: The alarms that end an update. The others are left out: an alarm that a user's own brake causes, or that
            stays on while a message lies in a queue, would block the update that repairs it.
    """

    def __init__(self, scope: Construct, construct_id: str, *, config: ClusterConfig, service: str) -> None:
        super().__init__(scope, construct_id)
        self._cluster = config.cluster
        self._region = config.region
        self._service = service
        self.rolling_back: list[cloudwatch.IAlarm] = []
        if config.alarm_topic_arn:
            self.topic: sns.ITopic = sns.Topic.from_topic_arn(self, "Topic", config.alarm_topic_arn)
        else:
            display_name = f"Fleetwright on {self._cluster}"[:DISPLAY_NAME_MAX]
            self.topic = sns.Topic(self, "Topic", display_name=display_name, enforce_ssl=True)
            # A topic policy replaces the default policy, which lets everything in the account publish.
            self.topic.grant_publish(for_this_account(self, "cloudwatch.amazonaws.com"))
        if config.alarm_email:
            self.topic.add_subscription(subscriptions.EmailSubscription(config.alarm_email))

    def watch(
        self,
        functions: Sequence[ProvisionerFunction],
        queues: Queues,
        executions: Mapping[str, cloudwatch.IMetric],
    ) -> None:
        """Create every alarm. Failing work ends in a dead-letter queue, so only one function has an alarm of its own.

        `executions` are the metrics of executions that did not succeed, none without a state machine.
        """
        if executions:
            self._on_failed_parts(executions)
        for watch in _WATCHES:
            self._on_causes(watch)
        self._on_refused_calls()
        self._on_missing_permissions()
        self._on_stopped_loops([function for function in functions if function.spec.may_loop])
        by_name = {function.spec.name: function for function in functions}
        self._on_no_clean_run(next(by_name[name] for name in LAST_RESORT if name in by_name))
        self._on_dead_letters("failures", queues.failures.metric_approximate_number_of_messages_visible)
        self._on_late_messages(queues.by_name[WORK.name])

    def _on_causes(self, watch: _Watch) -> None:
        metric = self._sum_of(metric_names.alarm_count(watch.name))
        alarm = self._alarm(watch.name, metric, watch.says, of=watch.of, periods=watch.periods)
        if watch.rolls_back:
            self.rolling_back.append(alarm)

    def _sum_of(self, count: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=metric_names.in_cloudwatch(count),
            dimensions_map={"service": self._service},
            statistic="Sum",
            period=FIVE_MINUTES,
        )

    def _on_refused_calls(self) -> None:
        """Watch each refused action and resource by itself, so that the notification names them."""
        says = "a permission or quota is missing, or a reference is broken"
        refused = {"calls": metric_names.DENIED_CALLS, "launches": metric_names.LAUNCH_DENIALS}
        total = cloudwatch.MathExpression(
            expression="FILL(calls, 0) + FILL(launches, 0)",
            using_metrics={name: self._sum_of(count) for name, count in refused.items()},
            period=FIVE_MINUTES,
        )
        self.rolling_back.append(self._on_calls(REFUSED_CALLS, metric_names.DENIED_CALLS, total, says))

    def _on_missing_permissions(self) -> None:
        """Watch the same of calls without which runs go on."""
        count, says = metric_names.UNPERMITTED_CALLS, "a permission is missing, and runs go on without the call"
        self._on_calls(MISSING_PERMISSIONS, count, self._sum_of(count), says)

    def _on_calls(self, name: str, count: str, total: cloudwatch.IMetric, says: str) -> cloudwatch.Alarm:
        """Return an alarm on each action and resource of this count; on the total where AWS has no such alarms."""
        if self._region.startswith(_WITHOUT_CONTRIBUTORS):
            return self._alarm(name, total, says, of=2, periods=3)
        schema = f'SCHEMA("{NAMESPACE}", action, resource, service)'
        grouped = "GROUP BY action, resource ORDER BY SUM() DESC"
        where = f"WHERE service = '{self._service}'"
        query = " ".join(("SELECT", f"SUM({metric_names.in_cloudwatch(count)})", "FROM", schema, where, grouped))
        metric = cloudwatch.MathExpression(expression=query, using_metrics={}, period=FIVE_MINUTES)
        return self._alarm(name, metric, f"{says}: the notification names action and resource", of=2, periods=3)

    def _on_stopped_loops(self, functions: Sequence[ProvisionerFunction]) -> None:
        """Watch for messages that Lambda dropped, although the functions allow loops, and for those that we did not send."""
        metrics: dict[str, cloudwatch.IMetric] = {
            f"dropped{number}": function.function.metric(
                "RecursiveInvocationsDropped", period=FIVE_MINUTES, statistic="Sum"
            )
            for number, function in enumerate(functions)
        }
        metrics["cut"] = self._sum_of(metric_names.CHAINS_CUT)
        total = " + ".join(f"FILL({name}, 0)" for name in metrics)
        metric = cloudwatch.MathExpression(expression=total, using_metrics=metrics, period=FIVE_MINUTES)
        self._alarm(LOOPS_STOPPED, metric, "messages of functions to themselves were dropped: their chain was too long")

    def _on_failed_parts(self, executions: Mapping[str, cloudwatch.IMetric]) -> None:
        """Watch for parts about which no function has decided, and for executions that did not join the others."""
        metrics: dict[str, cloudwatch.IMetric] = {**executions, "parts": self._sum_of(metric_names.FAILED_PARTS)}
        total = " + ".join(f"FILL({name}, 0)" for name in metrics)
        metric = cloudwatch.MathExpression(expression=total, using_metrics=metrics, period=FIVE_MINUTES)
        self._alarm(PARTS_FAILED, metric, "parts of a large cluster are not decided about", of=2, periods=3)

    def _on_no_clean_run(self, function: ProvisionerFunction) -> None:
        """Watch for five minutes without a successful invocation, including time-outs and failed starts.

        It needs no metric of ours: Lambda writes one value of `Errors` per invocation, 0 for success. The minimum is 1 if all
        failed, and missing if there were none. Then the alarm has insufficient data, and notifies as in ALARM. A new alarm
        begins in that state, so a first deployment notifies nobody (docs/engineering/aws-facts.md#first-alarm-state).
        """
        says = (
            f"{function.spec.name} has not run to its end for five minutes; with insufficient data, it is not invoked"
        )
        errors = function.function.metric_errors(period=FIVE_MINUTES, statistic="Minimum")
        alarm = self._alarm("no-clean-run", errors, says, missing=cloudwatch.TreatMissingData.MISSING)
        alarm.add_insufficient_data_action(actions.SnsAction(self.topic))
        self.rolling_back.append(alarm)

    def _on_dead_letters(self, name: str, metric: object) -> None:
        says = f"queue {name} holds messages that could not be handled"
        self._alarm(name, metric(period=FIVE_MINUTES, statistic="Maximum"), says)  # type: ignore[operator]  # jsii method

    def _on_late_messages(self, queue: sqs.IQueue) -> None:
        """Watch how old the oldest message to `execute` is: steps go on without messages, each some two minutes late."""
        age = queue.metric_approximate_age_of_oldest_message(period=FIVE_MINUTES, statistic="Maximum")
        says = "messages to execute are five minutes old, so each step of a node takes minutes"
        self._alarm("late-messages", age, says, of=2, periods=2, threshold=LATE_SECONDS)

    def _alarm(
        self,
        name: str,
        metric: cloudwatch.IMetric,
        says: str,
        *,
        of: int = 1,
        periods: int = 1,
        threshold: int = 1,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
    ) -> cloudwatch.Alarm:
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
        return alarm
