"""The state machine that has functions decide about the parts of a cluster too large for one invocation."""

from __future__ import annotations

import json
from collections.abc import Sequence

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_iam as iam
from aws_cdk import aws_stepfunctions as stepfunctions
from constructs import Construct

from infra.config import ClusterConfig
from infra.constructs.function import LIVE, ProvisionerFunction
from infra.constructs.grants.place import Place, allow
from infra.constructs.trust import for_this_account
from installation.wiring import PARTS_MACHINE, FunctionSpec, definition

FIVE_MINUTES = cdk.Duration.minutes(5)
_ENDS_BADLY = ("ExecutionsFailed", "ExecutionsTimedOut", "ExecutionsAborted")


class PartsMachine(Construct):
    """A Distributed Map over the parts, and a task that joins the decisions.

    Each child is an execution of its own, so its role starts, reads and stops them
    (docs/engineering/aws-facts.md#states-children).

    Attributes:
        arn: Known before the machine, since functions are told of it and the machine names them.
    """

    def __init__(self, scope: Construct, construct_id: str, *, config: ClusterConfig) -> None:
        super().__init__(scope, construct_id)
        self._name = f"{config.stack_name}-parts"
        self._role_name = config.role_name("parts")
        self.arn = Place(cdk.Stack.of(self)).arn("states", f"stateMachine:{self._name}")

    def made(self, functions: Sequence[ProvisionerFunction]) -> dict[str, cloudwatch.IMetric]:
        """Make the machine, which invokes these functions through their aliases.

        Returns:
            The metrics of executions that did not succeed, by their names in an expression.
        """
        place, by_name = Place(cdk.Stack.of(self)), {function.spec.name: function for function in functions}
        role = iam.Role(
            self,
            "Role",
            role_name=self._role_name,
            assumed_by=for_this_account(self, "states.amazonaws.com"),
            description="Lets Step Functions have Fleetwright's functions decide about the parts of a large cluster",
        )

        def arn_of(spec: FunctionSpec) -> str:
            # A text, not a reference to the alias, which waits for its deployment and its alarms, one of them on the machine.
            return f"{by_name[spec.name].function.function_arn}:{LIVE}"

        allow(role, ["lambda:InvokeFunction"], [arn_of(PARTS_MACHINE.each), arn_of(PARTS_MACHINE.then)])
        allow(role, ["states:StartExecution"], [self.arn])
        children = [place.arn("states", f"execution:{self._name}{child}") for child in (":*", "/*")]
        allow(role, ["states:DescribeExecution", "states:StopExecution"], children)
        machine = stepfunctions.CfnStateMachine(
            self,
            "Machine",
            state_machine_name=self._name,
            state_machine_type="STANDARD",
            role_arn=role.role_arn,
            # Not `Stack.to_json_string`, which loses `null`: then outputs would take the place of the run that is joined.
            definition_string=json.dumps(definition(PARTS_MACHINE, arn_of, cdk.Stack.of(self).partition)),
        )
        machine.node.add_dependency(role)
        return {name[0].lower() + name[1:]: self._number_of(name) for name in _ENDS_BADLY}

    def _number_of(self, name: str) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/States",
            metric_name=name,
            dimensions_map={"StateMachineArn": self.arn},
            period=FIVE_MINUTES,
            statistic="Sum",
        )
