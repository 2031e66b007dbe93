"""The schedule group in which `reconcile` keeps the NodePools' budget windows, and the role of all schedules.

The fixed schedules are outside the group: `reconcile` deletes from it what is no window.
"""

from __future__ import annotations

from collections.abc import Sequence

from aws_cdk import aws_iam as iam
from aws_cdk import aws_scheduler as scheduler
from constructs import Construct

from infra.constructs.function import LIVE, ProvisionerFunction
from infra.constructs.trust import for_this_account

SCHEDULE_OWNER = "reconcile"


class BudgetWindows(Construct):
    """An EventBridge Scheduler group whose schedules invoke one function."""

    def __init__(self, scope: Construct, construct_id: str, *, name: str, role_name: str) -> None:
        super().__init__(scope, construct_id)
        self.group_name = name
        scheduler.CfnScheduleGroup(self, "Group", name=self.group_name)
        self.role = iam.Role(
            self,
            "Role",
            role_name=role_name,
            assumed_by=for_this_account(self, "scheduler.amazonaws.com"),
            description="Lets EventBridge Scheduler run Fleetwright's functions by fixed schedules and budget windows",
        )

    def wire(self, functions: Sequence[ProvisionerFunction]) -> None:
        """Let the schedules invoke the function with `windows`, and pass its ARN to `reconcile`, which writes the schedules."""
        owner = next((function for function in functions if function.spec.name == SCHEDULE_OWNER), None)
        if owner is None:  # with `mode: shadow` nobody keeps schedules
            return
        target = next(function for function in functions if function.spec.windows)
        target.alias.grant_invoke(self.role)
        # A text, not a reference to the alias: that waits for its deployment, the deployment for the alarms, and one of these
        # for the owner, which would be a cycle.
        owner.function.add_environment("DISRUPT_FUNCTION_ARN", f"{target.function.function_arn}:{LIVE}")

    def managed_by(self, role: iam.IRole, *, arn_prefix: str) -> None:
        """Allow `role` to manage the group's schedules; `arn_prefix` ends where the resource begins."""
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
