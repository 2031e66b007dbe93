"""The operators' brakes: the kill switch's parameter, CloudWatch alarms and zonal shifts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from simulator.clock import VirtualClock

KILL_SWITCH: Final = "/fleetwright/simulated/mode"
PAUSING_ALARM: Final = "checkout-errors"
SHIFTS_FOR: Final = timedelta(hours=12)
Responder = Callable[[dict[str, Any]], dict[str, Any]]


class OperatorBrakes:
    """Answers the functions' calls that read operators' brakes.

    Attributes:
        mode: Text of the kill switch's parameter.
        alarm: State of the alarm that pauses disruption.
        shifted_zones: Names of the zones that traffic is shifted away from.
    """

    def __init__(self, clock: VirtualClock, other_parameters: Responder, zone_ids: Mapping[str, str]) -> None:
        self._clock = clock
        self._other_parameters = other_parameters
        self._zone_ids = zone_ids
        self.mode = "run"
        self.alarm = "OK"
        self.shifted_zones: tuple[str, ...] = ()

    def get_parameter(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer ssm:GetParameter."""
        if request["Name"] != KILL_SWITCH:
            return self._other_parameters(request)
        return {"Parameter": {"Name": KILL_SWITCH, "Type": "String", "Value": self.mode}}

    def describe_alarms(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer cloudwatch:DescribeAlarms."""
        found = [name for name in request["AlarmNames"] if name == PAUSING_ALARM]
        return {"MetricAlarms": [{"AlarmName": name, "StateValue": self.alarm} for name in found]}

    def get_managed_resource(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer arc-zonal-shift:GetManagedResource."""
        now = self._clock.now()
        shifts = [
            {
                "zonalShiftId": f"shift-{zone}",
                "resourceIdentifier": request["resourceIdentifier"],
                "awayFrom": self._zone_ids.get(zone, zone),
                "appliedStatus": "APPLIED",
                "startTime": now,
                "expiryTime": now + SHIFTS_FOR,
                "comment": "by the scenario",
            }
            for zone in self.shifted_zones
        ]
        return {"arn": request["resourceIdentifier"], "appliedWeights": {}, "zonalShifts": shifts, "autoshifts": []}
