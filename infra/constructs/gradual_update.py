"""Brings a new version of each function into use step by step, and rolls it back if an alarm goes off.

See docs/engineering/handbook/deployment.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_codedeploy as codedeploy
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra import start_check
from infra.config import ClusterConfig
from infra.constructs.function import ProvisionerFunction
from infra.constructs.inline_function import InlineProgram, inline_function
from infra.constructs.trust import for_this_account

CANARY_PERCENT: Final = 50
"""Half the work: a tenth of one run a minute would be one run in ten minutes, too few for any alarm."""

CHECK_TIMEOUT: Final = cdk.Duration.minutes(10)
"""Longer than all tries to reach a busy function plus the longest start check."""


class GradualUpdate(Construct):
    """A deployment group of CodeDeploy for each function.

    An update checks whether each new version can start, gives it half of the work for `canary_minutes`, and moves the alias
    back if an alarm goes off meanwhile. With 0 minutes, the new version gets all work at once, and no alarm is watched:
    CodeDeploy stops every deployment while an alarm of its group is on, so that the update that ends the alarm could never be
    deployed (docs/engineering/aws-facts.md#codedeploy-alarms). A first deployment has no earlier version and no check.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        config: ClusterConfig,
        functions: Sequence[ProvisionerFunction],
        alarms: Sequence[cloudwatch.IAlarm],
    ) -> None:
        super().__init__(scope, construct_id)
        application = codedeploy.LambdaApplication(self, "Application")
        check = self._check(functions, application, config)
        minutes = config.canary_minutes
        steps = self._canary(minutes) if minutes else codedeploy.LambdaDeploymentConfig.ALL_AT_ONCE
        role = iam.Role(
            self,
            "Role",
            role_name=config.role_name("update"),
            assumed_by=for_this_account(self, "codedeploy.amazonaws.com"),
            description="Lets CodeDeploy move the aliases of Fleetwright's functions to new versions and back",
        )
        for function in functions:
            group = codedeploy.LambdaDeploymentGroup(
                self,
                function.spec.name,
                application=application,
                deployment_group_name=function.spec.name,
                alias=function.alias,
                deployment_config=steps,
                alarms=alarms if minutes else [],
                role=role,
                pre_hook=check,
                auto_rollback=codedeploy.AutoRollbackConfig(
                    deployment_in_alarm=bool(minutes), failed_deployment=True, stopped_deployment=True
                ),
            )
            function.alias.node.add_dependency(group, check)

    def _canary(self, minutes: int) -> codedeploy.LambdaDeploymentConfig:
        routing = codedeploy.TimeBasedCanaryTrafficRouting(
            interval=cdk.Duration.minutes(minutes), percentage=CANARY_PERCENT
        )
        return codedeploy.LambdaDeploymentConfig(self, "Canary", traffic_routing=routing)

    def _check(
        self,
        functions: Sequence[ProvisionerFunction],
        application: codedeploy.LambdaApplication,
        config: ClusterConfig,
    ) -> lambda_.Function:
        versions = {function.spec.name: function.function.current_version.function_arn for function in functions}
        groups = cdk.Stack.of(self).format_arn(
            service="codedeploy",
            resource="deploymentgroup",
            resource_name=f"{application.application_name}/*",
            arn_format=cdk.ArnFormat.COLON_RESOURCE_NAME,
        )
        return inline_function(
            self,
            "Check",
            InlineProgram(
                module=start_check,
                description="Fleetwright: asks a new version, before it gets traffic, whether it can start",
                role_name=config.role_name("start-check"),
                may="Fleetwright start check: invokes new versions before they get traffic, and nothing else",
                timeout=CHECK_TIMEOUT,
                log_retention_days=config.log_retention_days,
            ),
            statements=[
                iam.PolicyStatement(actions=["lambda:InvokeFunction"], resources=list(versions.values())),
                iam.PolicyStatement(actions=["codedeploy:GetDeployment"], resources=[groups]),
            ],
            environment={"VERSIONS": cdk.Stack.of(self).to_json_string(versions)},
        )
