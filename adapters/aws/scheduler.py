"""Maintains budget windows as EventBridge Scheduler schedules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from adapters.aws.errors import translate
from adapters.messages import WINDOW
from adapters.ports import ConflictError, DeniedError, NotFoundError, PortError

PAGES_LIMIT: Final = 100

RETRY_POLICY: Final = {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 2}
"""No retries: the minutely schedule compensates for a failed window event."""


class SchedulerWindows:
    """One schedule group, whose schedules wake one function (`adapters.ports.WindowSchedules`)."""

    def __init__(self, client: Any, *, group: str, role_arn: str, target_arn: str) -> None:
        self._client = client
        self._group = group
        self._target = {
            "Arn": target_arn,
            "RoleArn": role_arn,
            "Input": f'{{"source": "{WINDOW}"}}',
            "RetryPolicy": RETRY_POLICY,
        }

    def replace(self, wanted: Mapping[str, str]) -> None:
        """Create missing schedules, update different ones, and delete the others.

        Raises:
            PortError: The first error that concerns one schedule alone, after all others are written; any other error at once.
        """
        present = self._present()
        failed: list[PortError] = []
        for name in sorted(wanted.keys() | present):
            try:
                self._settle(name, wanted.get(name), is_present=name in present)
            except (ConflictError, DeniedError, NotFoundError) as error:
                failed.append(error)
        if failed:
            raise failed[0]

    def _settle(self, name: str, expression: str | None, *, is_present: bool) -> None:
        """Bring one schedule to this expression; None: delete it."""
        if expression is None:
            self._delete(name)
        elif not is_present:
            self._create(name, expression)
        elif self._written(name) != (expression, self._target["Arn"], self._target["RoleArn"]):
            self._write("UpdateSchedule", self._client.update_schedule, name, expression)

    def _create(self, name: str, expression: str) -> None:
        try:
            self._write("CreateSchedule", self._client.create_schedule, name, expression)
        except ConflictError:
            self._write("UpdateSchedule", self._client.update_schedule, name, expression)

    def _present(self) -> set[str]:
        names: set[str] = set()
        token: str | None = None
        for _ in range(PAGES_LIMIT):
            more = {"NextToken": token} if token else {}
            page = _call("ListSchedules", partial(self._client.list_schedules, GroupName=self._group, **more))
            names |= {schedule["Name"] for schedule in page["Schedules"]}
            token = page.get("NextToken")
            if not token:
                break
        return names

    def _written(self, name: str) -> tuple[str, str, str]:
        """Return a schedule's expression, function and role; an update of the stack may change the latter two."""
        found = _call("GetSchedule", lambda: self._client.get_schedule(GroupName=self._group, Name=name))
        return str(found["ScheduleExpression"]), str(found["Target"]["Arn"]), str(found["Target"]["RoleArn"])

    def _write(self, operation: str, write: Callable[..., Any], name: str, expression: str) -> None:
        _call(
            operation,
            lambda: write(
                GroupName=self._group,
                Name=name,
                ScheduleExpression=expression,
                FlexibleTimeWindow={"Mode": "OFF"},
                Target=self._target,
            ),
        )

    def _delete(self, name: str) -> None:
        try:
            _call("DeleteSchedule", lambda: self._client.delete_schedule(GroupName=self._group, Name=name))
        except NotFoundError:
            return


def _call(operation: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (ClientError, BotoCoreError) as error:
        raise translate(f"scheduler:{operation}", error) from error
