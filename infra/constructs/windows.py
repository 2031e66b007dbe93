"""The schedule group in which `reconcile` keeps the NodePools' budget windows, and the role that wakes `disrupt` from it."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct


class BudgetWindows(Construct):
    """An EventBridge Scheduler group whose schedules invoke one function."""

    def __init__(self, scope: Construct, construct_id: str, *, cluster: str) -> None:
        super().__init__(scope, construct_id)
        self.group_name = f"fleetwright-{cluster}"
        scheduler.CfnScheduleGroup(self, "Group", name=self.group_name)
        self.role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("scheduler.amazonaws.com"),
            description="Lets EventBridge Scheduler wake Fleetwright's disrupt function when a budget window opens or closes",
        )

    def wakes(self, function: lambda_.IFunction) -> None:
        """Allow the schedules to invoke `function`."""
        function.grant_invoke(self.role)

    def managed_by(self, role: iam.IRole, *, arn_prefix: str) -> None:
        """Allow `role` to keep the group's schedules; `arn_prefix` ends where the resource begins."""
        role.add_to_principal_policy(
            iam.PolicyStatement(
                actions=[
                    "scheduler:CreateSchedule",
                    "scheduler:UpdateSchedule",
                    "scheduler:DeleteSchedule",
                    "scheduler:GetSchedule",
                ],
                resources=[f"{arn_prefix}schedule/{self.group_name}/*"],
            )
        )
        role.add_to_principal_policy(iam.PolicyStatement(actions=["scheduler:ListSchedules"], resources=["*"]))
        self.role.grant_pass_role(role)
