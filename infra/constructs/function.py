"""One Lambda function as we run them: own role, own log group, arm64, bounded concurrency, JSON logs."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from lambdas.wiring import FunctionSpec

RUNTIME = lambda_.Runtime.PYTHON_3_13
ASYNC_RETRIES = 2


class ProvisionerFunction(Construct):
    """A function of the wiring. `function` is the Lambda, `role` what it may do."""

    def __init__(
        self,
        scope: Construct,
        spec: FunctionSpec,
        *,
        code: lambda_.Code,
        environment: Mapping[str, str],
        failures: sqs.IQueue,
        log_retention_days: int,
    ) -> None:
        super().__init__(scope, spec.name)
        self.spec = spec
        log_group = logs.LogGroup(
            self,
            "Logs",
            retention=_retention(log_retention_days),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"Fleetwright {spec.name}: what this function may do, and nothing else",
        )
        log_group.grant_write(self.role)
        self.function = lambda_.Function(
            self,
            "Function",
            description=f"Fleetwright: {spec.name.replace('_', ' ')}",
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            handler=spec.handler,
            code=code,
            role=self.role,
            environment=dict(environment),
            memory_size=spec.memory_mb,
            timeout=cdk.Duration.seconds(int(spec.timeout.total_seconds())),
            reserved_concurrent_executions=spec.concurrency,
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            retry_attempts=ASYNC_RETRIES,
            on_failure=destinations.SqsDestination(failures),
        )


def _retention(days: int) -> logs.RetentionDays:
    names = {7: "ONE_WEEK", 14: "TWO_WEEKS", 30: "ONE_MONTH", 90: "THREE_MONTHS", 365: "ONE_YEAR"}
    if days not in names:
        raise ValueError(f"log retention of {days} days: choose one of {', '.join(map(str, sorted(names)))}")
    return logs.RetentionDays[names[days]]
