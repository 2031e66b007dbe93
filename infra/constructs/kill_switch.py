"""The SSM parameter by which an operator stops the functions, or only the disruption of nodes."""

from __future__ import annotations

from aws_cdk import aws_ssm as ssm
from constructs import Construct

MODES = "run | pause-disruption | stop"
DESCRIPTION = "Fleetwright on {cluster}: " + MODES + " (docs/how-to/stop-it.md)"
"""Never to be changed, as nothing of the resource: CloudFormation writes all properties of a resource when one of them changes,
and with them the value `run` over the `stop` of an operator (docs/engineering/aws-facts.md#cloudformation-writes-all)."""


class KillSwitchParameter(Construct):
    """The parameter. Later deployments keep the value that an operator has set, since the resource never changes."""

    def __init__(self, scope: Construct, construct_id: str, *, cluster: str) -> None:
        super().__init__(scope, construct_id)
        self.name = f"/fleetwright/{cluster}/mode"
        ssm.StringParameter(
            self,
            "Mode",
            parameter_name=self.name,
            string_value="run",
            allowed_pattern="run|pause-disruption|stop",
            description=DESCRIPTION.format(cluster=cluster),
        )
