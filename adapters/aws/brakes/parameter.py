"""The kill switch: an SSM parameter that an operator sets."""

from __future__ import annotations

from adapters.aws.service import AwsService
from core.brakes.brake import Brake
from core.brakes.kill_switch import kill_switch


class KillSwitch:
    """`adapters.brakes.brake_reader.Source` over one parameter."""

    def __init__(self, ssm: AwsService, parameter: str) -> None:
        self._ssm = ssm
        self.name = f"parameter {parameter}"
        self._parameter = parameter

    def read(self) -> tuple[Brake, ...]:
        """Return the brake that the parameter engages. Raises PortError; a parameter that does not exist cannot be read."""
        answer = self._ssm.call("GetParameter", Name=self._parameter)
        brake = kill_switch(answer["Parameter"]["Value"], self._parameter)
        return () if brake is None else (brake,)
