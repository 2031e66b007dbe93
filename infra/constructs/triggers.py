"""Connects a function to its triggers: its queue, its schedules, EC2 and Health events, the audit log, budget windows."""

from __future__ import annotations

import re

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_logs_destinations as log_destinations
from constructs import Construct

from infra.constructs.function import ProvisionerFunction
from infra.constructs.queues import Queues
from installation.wiring import AUDIT_LOG_FILTER, QUEUES, FunctionSpec

EVENT_RETRIES = 5
"""How often EventBridge retries to deliver an event to Lambda, within the event's age limit."""


class Triggers(Construct):
    """Every trigger of `target` in the wiring."""

    def __init__(
        self, scope: Construct, construct_id: str, *, target: ProvisionerFunction, queues: Queues, audit_log_group: str
    ) -> None:
        super().__init__(scope, construct_id)
        self._target = target
        self._queues = queues
        self._consume_queue(target.spec)
        self._subscribe_rules(target.spec)
        if target.spec.reads_audit_log and audit_log_group:
            self._subscribe_audit_log(audit_log_group)

    def _consume_queue(self, spec: FunctionSpec) -> None:
        for queue in QUEUES:
            if queue.name == spec.queue:
                source = self._queues.by_name[queue.name]
                lambda_.EventSourceMapping(
                    self,
                    queue.name,
                    target=self._target.alias,
                    event_source_arn=source.queue_arn,
                    batch_size=queue.batch_size,
                    max_batching_window=cdk.Duration.seconds(int(queue.batch_window.total_seconds())),
                    report_batch_item_failures=True,
                    max_concurrency=max(2, spec.concurrency or 2),  # SQS accepts no bound below two
                )
                source.grant_consume_messages(self._target.role)

    def _subscribe_rules(self, spec: FunctionSpec) -> None:
        for schedule in spec.schedules:
            every = events.Schedule.rate(cdk.Duration.seconds(int(schedule.every.total_seconds())))
            self._invoke(events.Rule(self, schedule.name, schedule=every))
        for rule in spec.rules:
            pattern = events.EventPattern(
                source=rule.pattern["source"],
                detail_type=rule.pattern["detail-type"],
                detail=rule.pattern.get("detail"),
            )
            self._invoke(events.Rule(self, rule.name, event_pattern=pattern))

    def _invoke(self, rule: events.Rule) -> None:
        rule.add_target(
            targets.LambdaFunction(
                self._target.alias,
                dead_letter_queue=self._queues.failures,
                max_event_age=cdk.Duration.seconds(int(self._target.spec.event_age.total_seconds())),
                retry_attempts=EVENT_RETRIES,
            )
        )
        _name_without_stack(rule, self._target.spec)

    def _subscribe_audit_log(self, log_group: str) -> None:
        logs.SubscriptionFilter(
            self,
            "audit-log",
            log_group=logs.LogGroup.from_log_group_name(self, "control-plane-logs", log_group),
            destination=log_destinations.LambdaDestination(self._target.alias),
            filter_pattern=logs.FilterPattern.literal(AUDIT_LOG_FILTER),
        )


def _name_without_stack(rule: events.Rule, spec: FunctionSpec) -> None:
    """Give the permission to invoke the function an id of its own: the CDK's contains the stack's name.

    A release's template serves every cluster, and its update must not replace what `cdk deploy` made.
    """
    for part in rule.node.children:
        if isinstance(part, lambda_.CfnPermission):
            part.override_logical_id(re.sub(r"[^0-9A-Za-z]", "", f"{spec.name}{rule.node.id}MayInvoke"))
