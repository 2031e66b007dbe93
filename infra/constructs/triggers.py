"""Connects a function to its triggers: its queue, its schedules, EC2 and Health events, the audit log, budget windows.

A bus takes 300 rules in each account and region, and EventBridge Scheduler a million schedules: each cluster has one rule, and
schedules.
"""

from __future__ import annotations

import json
import re

import aws_cdk as cdk
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_logs_destinations as log_destinations
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.constructs.function import ProvisionerFunction
from infra.constructs.queues import Queues
from installation.wiring import AUDIT_LOG_FILTER, QUEUES, SCHEDULED_EVENT, FunctionSpec

EVENT_RETRIES = 5
"""How often EventBridge retries to deliver an event to Lambda, within the event's age limit."""


class Triggers(Construct):
    """Every trigger of `target` in the wiring."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        target: ProvisionerFunction,
        queues: Queues,
        schedule_role: iam.Role,
        audit_log_group: str,
    ) -> None:
        super().__init__(scope, construct_id)
        self._target = target
        self._queues = queues
        self._consume_queue(target.spec)
        self._follow_schedules(target.spec, schedule_role)
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

    def _follow_schedules(self, spec: FunctionSpec, role: iam.Role) -> None:
        """Invoke the function at each period of the wiring, through its alias."""
        if not spec.schedules:
            return
        self._target.alias.grant_invoke(role)
        self._queues.failures.grant(role, "sqs:SendMessage")
        for schedule in spec.schedules:
            minutes = int(schedule.every.total_seconds()) // 60
            made = scheduler.CfnSchedule(
                self,
                f"{schedule.name}-schedule",
                schedule_expression=f"rate({minutes} minute{'s' if minutes > 1 else ''})",
                flexible_time_window=scheduler.CfnSchedule.FlexibleTimeWindowProperty(mode="OFF"),
                target=scheduler.CfnSchedule.TargetProperty(
                    arn=self._target.alias.function_arn,
                    role_arn=role.role_arn,
                    input=json.dumps(SCHEDULED_EVENT),
                    dead_letter_config=scheduler.CfnSchedule.DeadLetterConfigProperty(
                        arn=self._queues.failures.queue_arn
                    ),
                    retry_policy=scheduler.CfnSchedule.RetryPolicyProperty(
                        maximum_event_age_in_seconds=int(spec.event_age.total_seconds()),
                        maximum_retry_attempts=EVENT_RETRIES,
                    ),
                ),
            )
            made.node.add_dependency(role)  # with its policy: a tick that comes before it would be refused

    def _subscribe_rules(self, spec: FunctionSpec) -> None:
        """Let one rule match what any rule of the wiring matches: no event matches two of them."""
        if not spec.rules:
            return
        sources = sorted({source for rule in spec.rules for source in rule.pattern["source"]})
        rule = events.Rule(self, "events", event_pattern=events.EventPattern(source=sources))
        made = rule.node.default_child
        assert isinstance(made, events.CfnRule)  # noqa: S101 - for the type checker
        made.add_property_override("EventPattern", {"$or": [rule.pattern for rule in spec.rules]})
        made.add_property_deletion_override("EventPattern.source")
        self._invoke(rule)

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
