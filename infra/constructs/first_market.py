"""Reads instance types and prices while the stack is deployed: without a market nothing can be launched.

The schedule alone would read them up to five minutes after the deployment, and a failure would not show in the deployment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from constructs import Construct

from infra import first_market
from infra.config import ClusterConfig
from infra.constructs.function import ProvisionerFunction
from infra.constructs.inline_function import InlineProgram, inline_function

READER: Final = "refresh_catalogue"

TIMEOUT: Final = cdk.Duration.minutes(15)
"""Lambda's maximum: nine minutes of tries while the reader is busy, and one reading."""


class FirstMarket(Construct):
    """Invokes the reader once its role is complete, at each deployment that changes it; a failure fails the deployment.

    Not the toolkit's own trigger (docs/engineering/handbook/deployment.md): that tries once, and a scheduled run may have the
    reader's only execution.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: ClusterConfig,
        functions: Sequence[ProvisionerFunction],
    ) -> None:
        super().__init__(scope, construct_id)
        reader = next(function for function in functions if function.spec.name == READER)
        version = reader.function.current_version.function_arn
        caller = inline_function(
            self,
            "Caller",
            InlineProgram(
                module=first_market,
                description="Fleetwright: has the market read during a deployment",
                role_name=config.role_name("first-market"),
                may="Fleetwright first market: invokes the function that reads the market, and nothing else",
                timeout=TIMEOUT,
                log_retention_days=config.log_retention_days,
            ),
            statements=[iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=[version])],
        )
        market = cdk.CustomResource(
            self,
            "Market",
            resource_type="Custom::FirstMarket",
            service_token=caller.function_arn,
            service_timeout=TIMEOUT,
            properties={"Version": version},
        )
        market.node.add_dependency(reader.role, caller.grant_principal)
