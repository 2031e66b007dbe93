"""Schedules of budget windows: one that EventBridge refuses keeps no other from what it should be."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from adapters.aws.scheduler import SchedulerWindows
from adapters.ports import DeniedError, TransientError

SUNDAY, MONDAY, FRIDAY = (f"cron(0 8 ? * {day} *)" for day in ("SUN", "MON", "FRI"))


class FakeScheduler:
    """One group of EventBridge Scheduler; `refused` has the names of schedules about which it answers with `code`."""

    def __init__(self, **expressions: str) -> None:
        self.schedules: dict[str, dict[str, Any]] = {}
        self.refused: frozenset[str] = frozenset()
        self.code = "ValidationException"
        for name, expression in expressions.items():
            self.create_schedule(Name=name, ScheduleExpression=expression, Target={"Arn": "disrupt", "RoleArn": "role"})

    @property
    def expressions(self) -> dict[str, str]:
        return {name: found["ScheduleExpression"] for name, found in self.schedules.items()}

    def list_schedules(self, **_: Any) -> dict[str, Any]:
        return {"Schedules": [{"Name": name} for name in self.schedules]}

    def get_schedule(self, **request: Any) -> dict[str, Any]:
        return self.schedules[request["Name"]]

    def create_schedule(self, **request: Any) -> None:
        if request["Name"] in self.refused:
            raise ClientError({"Error": {"Code": self.code, "Message": "refused"}}, "CreateSchedule")
        self.schedules[request["Name"]] = request

    update_schedule = create_schedule

    def delete_schedule(self, **request: Any) -> None:
        if request["Name"] in self.refused:
            raise ClientError({"Error": {"Code": self.code, "Message": "refused"}}, "DeleteSchedule")
        del self.schedules[request["Name"]]


def windows(scheduler: FakeScheduler) -> SchedulerWindows:
    return SchedulerWindows(scheduler, group="windows", role_arn="role", target_arn="disrupt")


@pytest.mark.parametrize(
    ("refused", "left"),
    [
        ("added", {"changed": FRIDAY, "last": FRIDAY}),
        ("changed", {"added": FRIDAY, "changed": SUNDAY, "last": FRIDAY}),
        ("dropped", {"added": FRIDAY, "changed": FRIDAY, "dropped": MONDAY, "last": FRIDAY}),
    ],
)
def test_a_schedule_that_is_refused_harms_itself_only(refused: str, left: dict[str, str]) -> None:
    """If this failed, one window that EventBridge refuses would keep those of all other NodePools from opening on time."""
    scheduler = FakeScheduler(changed=SUNDAY, dropped=MONDAY)
    scheduler.refused = frozenset({refused})
    with pytest.raises(DeniedError):
        windows(scheduler).replace({"added": FRIDAY, "changed": FRIDAY, "last": FRIDAY})
    assert scheduler.expressions == left


def test_a_service_that_does_not_answer_is_asked_once() -> None:
    """If this failed, an outage of EventBridge would take a call and its retries for each window."""
    scheduler = FakeScheduler()
    scheduler.refused, scheduler.code = frozenset({"a"}), "ServiceUnavailable"
    with pytest.raises(TransientError):
        windows(scheduler).replace({"a": FRIDAY, "b": FRIDAY})
    assert scheduler.expressions == {}
