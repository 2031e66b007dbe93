"""A Lambda function of the wiring: its own role and log group, arm64, bounded concurrency, JSON logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_lambda_destinations as destinations
from aws_cdk import aws_logs as logs
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from infra.config import ClusterConfig
from infra.constructs.private_network import PrivateNetwork
from infra.constructs.trust import for_this_account
from installation.array_threads import ARRAY_THREADS
from installation.wiring import FunctionSpec

RUNTIME = lambda_.Runtime.PYTHON_3_13
EVENT_RETRIES = 2
"""Retries of an event that no later event repeats."""


LIVE: Final = "live"
"""The alias that all triggers invoke."""

_ONE_NAME_OF_DYNAMODB: Final = {"AWS_ACCOUNT_ID_ENDPOINT_MODE": "disabled"}
"""A sandbox that starts from a snapshot asks for its credentials. If they name the account, botocore would call DynamoDB under
a name with that account, which firewalls and resolvers that serve DynamoDB's own name may not know."""


class ProvisionerFunction(Construct):
    """A function of the wiring.

    Attributes:
        function: The Lambda function. Its metrics and its reserved concurrency cover all versions together.
        alias: The version in use. Every trigger invokes it; it has the age limit and retries of events.
        role: The role of all versions.
    """

    def __init__(
        self,
        scope: Construct,
        spec: FunctionSpec,
        *,
        code: lambda_.Code,
        environment: Mapping[str, str],
        failures: sqs.IQueue,
        config: ClusterConfig,
        network: PrivateNetwork | None = None,
    ) -> None:
        super().__init__(scope, spec.name)
        self.spec = spec
        log_group = logs.LogGroup(self, "Logs", removal_policy=cdk.RemovalPolicy.DESTROY)
        keep_for(log_group, config.log_retention_days)
        self.role = iam.Role(
            self,
            "Role",
            role_name=config.role_name(spec.name),
            assumed_by=for_this_account(self, "lambda.amazonaws.com"),
            description=f"Fleetwright {spec.name}: what this function may do, and nothing else",
        )
        log_group.grant_write(self.role)
        self.function = self._function(code, environment, log_group, snap_start=config.snap_start)
        self.alias = lambda_.Alias(
            self,
            "Live",
            alias_name=LIVE,
            version=self.function.current_version,
            max_event_age=cdk.Duration.seconds(int(spec.event_age.total_seconds())),
            retry_attempts=0 if spec.is_repeated else EVENT_RETRIES,
            on_failure=None if spec.is_repeated else destinations.SqsDestination(failures),
        )
        if network is not None:
            network.take_in(self.function, self.role)

    def _function(
        self,
        code: lambda_.Code,
        environment: Mapping[str, str],
        log_group: logs.ILogGroup,
        *,
        snap_start: bool,
    ) -> lambda_.Function:
        return lambda_.Function(
            self,
            "Function",
            description=f"Fleetwright: {self.spec.name.replace('_', ' ')}",
            runtime=RUNTIME,
            architecture=lambda_.Architecture.ARM_64,
            handler=self.spec.handler,
            code=code,
            role=self.role,
            environment={**ARRAY_THREADS, **(_ONE_NAME_OF_DYNAMODB if snap_start else {}), **environment},
            memory_size=self.spec.memory_mb,
            timeout=cdk.Duration.seconds(int(self.spec.timeout.total_seconds())),
            reserved_concurrent_executions=self.spec.concurrency,
            log_group=log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            recursive_loop=lambda_.RecursiveLoop.ALLOW if self.spec.may_loop else None,
            snap_start=lambda_.SnapStartConf.ON_PUBLISHED_VERSIONS if snap_start else None,
        )


def keep_for(log_group: logs.LogGroup, days: int) -> None:
    """Set the retention in days, which `infra.config` has checked: CDK's list of retentions lags behind CloudWatch Logs."""
    resource = log_group.node.default_child
    if not isinstance(resource, logs.CfnLogGroup):
        raise TypeError(f"{log_group.node.path} is not a CloudFormation log group")
    resource.retention_in_days = days
