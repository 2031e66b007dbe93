"""What operators brake the functions with: the kill switch's parameter, CloudWatch alarms and zonal shifts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from simulator.aws.wire import AwsError

KILL_SWITCH: Final = "/fleetwright/simulated/mode"
Responder = Callable[[dict[str, Any]], dict[str, Any]]


class OperatorBrakes:
    """Answers what the functions ask of them.

    Attributes:
        mode: Text of the kill switch's parameter; None: there is no such parameter.
        alarms: Alarm name → state (OK, ALARM, INSUFFICIENT_DATA).
        shifted_zones: Ids of the zones that traffic is shifted away from.
    """

    def __init__(self, other_parameters: Responder) -> None:
        self._other_parameters = other_parameters
        self.mode: str | None = "run"
        self.alarms: dict[str, str] = {}
        self.shifted_zones: list[str] = []

    def get_parameter(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ssm:GetParameter."""
        if request["Name"] != KILL_SWITCH:
            return self._other_parameters(request)
        if self.mode is None:
            raise AwsError("ParameterNotFound", f"Parameter {KILL_SWITCH} not found.")
        return {"Parameter": {"Name": KILL_SWITCH, "Type": "String", "Value": self.mode}}

    def describe_alarms(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer cloudwatch:DescribeAlarms."""
        found = [name for name in request["AlarmNames"] if name in self.alarms]
        return {"MetricAlarms": [{"AlarmName": name, "StateValue": self.alarms[name]} for name in found]}

    def get_managed_resource(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer arc-zonal-shift:GetManagedResource."""
        shifts = [{"awayFrom": zone, "appliedStatus": "APPLIED"} for zone in self.shifted_zones]
        return {"arn": request["resourceIdentifier"], "appliedWeights": {}, "zonalShifts": shifts, "autoshifts": []}
