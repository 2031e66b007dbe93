"""The user's CloudWatch alarms that pause voluntary disruption while they are in ALARM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from adapters.aws.service import AwsService
from core.brakes.brake import Brake, BrakeKind

NAMES_MAX: Final = 100
"""The most alarms that one DescribeAlarms call may name."""


class PausingAlarms:
    """`adapters.brakes.brake_reader.Source` over alarms of the functions' own account and region, metric or composite."""

    def __init__(self, cloudwatch: AwsService, alarms: Sequence[str]) -> None:
        self._cloudwatch = cloudwatch
        self._alarms = tuple(sorted(set(alarms)))
        self.name = "the CloudWatch alarms that pause disruption"

    def read(self) -> tuple[Brake, ...]:
        """Return the brakes of alarms that are in ALARM or do not exist. Raises PortError."""
        states: dict[str, str] = {}
        for start in range(0, len(self._alarms), NAMES_MAX):
            answer = self._cloudwatch.call(
                "DescribeAlarms",
                AlarmNames=list(self._alarms[start : start + NAMES_MAX]),
                AlarmTypes=["MetricAlarm", "CompositeAlarm"],
                MaxRecords=NAMES_MAX,
            )
            found = [*(answer.get("MetricAlarms") or ()), *(answer.get("CompositeAlarms") or ())]
            states |= {alarm["AlarmName"]: alarm["StateValue"] for alarm in found}
        return tuple(brake for name in self._alarms if (brake := _brake(name, states.get(name))) is not None)


def _brake(name: str, state: str | None) -> Brake | None:
    """Return the brake of one alarm.

    Missing data engages none (CloudWatch's default); an alarm that does not exist engages one.
    """
    if state is None:
        return Brake(BrakeKind.ALARM, f"alarm {name} does not exist; create it or take it from the setting")
    if state == "ALARM":
        return Brake(BrakeKind.ALARM, f"alarm {name} is in ALARM; it continues when the alarm is over")
    return None
