"""EventBridge Scheduler: the schedules that functions create for budget windows, each fired at its times."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from simulator.aws.cron import next_fire
from simulator.aws.ec2.filters import paged
from simulator.aws.errors import AwsError
from simulator.clock import VirtualClock

Fire = Callable[[str, str, dict[str, Any]], None]
"""Called with a schedule's name, its target's ARN and its input."""

_PAGE: Final = 100
_ENABLED: Final = "ENABLED"


class _Schedule(msgspec.Struct, frozen=True):
    request: dict[str, Any]
    created_at: datetime


class Schedules:
    """Answers the Scheduler's calls for one group, and fires enabled schedules."""

    def __init__(self, clock: VirtualClock, group: str) -> None:
        self._clock = clock
        self._group = group
        self._schedules: dict[str, _Schedule] = {}
        self._fire: Fire = lambda *_: None

    def on_fire(self, fire: Fire) -> None:
        """Call `fire` at each time of each enabled schedule."""
        self._fire = fire

    def create(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:CreateSchedule. Raises AwsError if it exists."""
        self._check(request)
        known = self._schedules.get(request["Name"])
        if known is None:
            self._put(request, self._clock.now())
        elif known.request.get("ClientToken") != request.get("ClientToken"):
            raise AwsError("ConflictException", f"Schedule {request['Name']} already exists.", 409)
        return self._arn(request["Name"])

    def update(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:UpdateSchedule. Raises AwsError if there is none."""
        self._check(request)
        self._put(request, self._find(request).created_at)
        return self._arn(request["Name"])

    def delete(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:DeleteSchedule. Raises AwsError if there is none."""
        self._check(request)
        self._find(request)
        del self._schedules[request["Name"]]
        return {}

    def get(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:GetSchedule. Raises AwsError if there is none."""
        self._check(request)
        found = self._find(request)
        kept = {key: value for key, value in found.request.items() if key != "ClientToken"}
        return {"State": _ENABLED, **kept, "CreationDate": found.created_at, "Arn": self._arn_of(request["Name"])}

    def list(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer scheduler:ListSchedules."""
        self._check(request)
        found = [
            {"Name": name, "GroupName": self._group, "State": self._schedules[name].request.get("State", _ENABLED)}
            for name in sorted(self._schedules)
            if name.startswith(request.get("NamePrefix", ""))
        ]
        return paged("Schedules", found, request, _PAGE)

    def _put(self, request: dict[str, Any], created_at: datetime) -> None:
        schedule = _Schedule(dict(request), created_at)
        self._schedules[request["Name"]] = schedule
        if request.get("State", _ENABLED) == _ENABLED:
            self._await(schedule, self._clock.now())

    def _await(self, schedule: _Schedule, after: datetime) -> None:
        due = next_fire(schedule.request["ScheduleExpression"], after)
        if due is not None:
            self._clock.at(due, lambda: self._due(schedule, due))

    def _due(self, schedule: _Schedule, due: datetime) -> None:
        name, target = schedule.request["Name"], schedule.request["Target"]
        if self._schedules.get(name) is schedule:
            self._await(schedule, due)
            self._fire(name, target["Arn"], json.loads(target.get("Input") or "{}"))

    def _find(self, request: dict[str, Any]) -> _Schedule:
        found = self._schedules.get(request["Name"])
        if found is None:
            raise AwsError("ResourceNotFoundException", f"Schedule {request['Name']} does not exist.", 404)
        return found

    def _check(self, request: dict[str, Any]) -> None:
        group = request.get("GroupName", "default")
        if group != self._group:
            raise AwsError("ResourceNotFoundException", f"Schedule group {group} does not exist.", 404)

    def _arn(self, name: str) -> dict[str, Any]:
        return {"ScheduleArn": self._arn_of(name)}

    def _arn_of(self, name: str) -> str:
        return f"arn:aws:scheduler:::schedule/{self._group}/{name}"
