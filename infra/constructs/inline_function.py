"""A Lambda function of one file, deployed inline, for the work of a deployment: its own role and log group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.constructs.function import RUNTIME, keep_for
from infra.constructs.trust import for_this_account


@dataclass(frozen=True, slots=True, kw_only=True)
class InlineProgram:
    """The program of an inline function, and its role.

    Attributes:
        module: Its file must not import anything of ours; the entry point is `handler`.
        role_name: The name of its role.
        may: The role's description.
    """

    module: ModuleType
    description: str
    role_name: str
    may: str
    timeout: cdk.Duration
    log_retention_days: int


def inline_function(
    scope: Construct,
    construct_id: str,
    program: InlineProgram,
    *,
    statements: list[iam.PolicyStatement],
    environment: Mapping[str, str] | None = None,
) -> lambda_.Function:
    """Create the function `construct_id` in `scope`, which may have no other one: the log group's id is `Logs`."""
    log_group = logs.LogGroup(scope, "Logs", removal_policy=cdk.RemovalPolicy.DESTROY)
    keep_for(log_group, program.log_retention_days)
    role = iam.Role(
        scope,
        f"{construct_id}Role",
        role_name=program.role_name,
        assumed_by=for_this_account(scope, "lambda.amazonaws.com"),
        description=program.may,
    )
    log_group.grant_write(role)
    for statement in statements:
        role.add_to_policy(statement)
    return lambda_.Function(
        scope,
        construct_id,
        description=program.description,
        runtime=RUNTIME,
        architecture=lambda_.Architecture.ARM_64,
        handler="index.handler",
        code=lambda_.Code.from_inline(Path(str(program.module.__file__)).read_text(encoding="utf-8")),
        role=role,
        environment=environment,
        timeout=program.timeout,
        log_group=log_group,
        logging_format=lambda_.LoggingFormat.JSON,
    )
