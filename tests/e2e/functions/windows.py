"""EventBridge Scheduler, which moto keeps but never fires: the schedules that the functions make for budget windows."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from botocore.exceptions import BotoCoreError, ClientError

from simulator.aws.session import next_fire
from tests.e2e.functions.timers import Timers

POLL_INTERVAL: Final = timedelta(seconds=5)

Fire = Callable[[str, str, dict[str, Any]], None]


class Windows:
    """Fires each enabled schedule of the account at its times: `fire(name, target ARN, input)`."""

    def __init__(self, scheduler: Any, timers: Timers, fire: Fire) -> None:
        self._scheduler = scheduler
        self._timers = timers
        self._fire = fire
        self._known: dict[tuple[str, str], str] = {}
        self._polling = threading.Lock()

    def start(self) -> None:
        """Start following the schedules that the functions create."""
        self._timers.every(POLL_INTERVAL, self.poll)

    def poll(self) -> None:
        """Read new, changed and deleted schedules. After an error of the service the next poll catches up."""
        with self._polling:
            try:
                found = self._schedules()
            except (ClientError, BotoCoreError):
                return
            for key, expression in found.items():
                if self._known.get(key) != expression:
                    self._await(key, expression)
            self._known = found

    def _schedules(self) -> dict[tuple[str, str], str]:
        found: dict[tuple[str, str], str] = {}
        for page in self._scheduler.get_paginator("list_schedules").paginate():
            for entry in page["Schedules"]:
                whole = self._schedule(entry["GroupName"], entry["Name"])
                if whole is not None and whole.get("State", "ENABLED") == "ENABLED":
                    found[entry["GroupName"], entry["Name"]] = whole["ScheduleExpression"]
        return found

    def _schedule(self, group: str, name: str) -> dict[str, Any] | None:
        """One schedule; None where it was deleted since it was listed, as the functions do when a NodePool goes."""
        try:
            found: dict[str, Any] = self._scheduler.get_schedule(GroupName=group, Name=name)
        except self._scheduler.exceptions.ResourceNotFoundException:
            return None
        return found

    def _await(self, key: tuple[str, str], expression: str) -> None:
        now = datetime.now(UTC)
        due = next_fire(expression, now)
        if due is not None:
            self._timers.after(due - now, lambda: self._due(key, expression))

    def _due(self, key: tuple[str, str], expression: str) -> None:
        if self._known.get(key) != expression:
            return
        self._await(key, expression)
        whole = self._schedule(*key)
        if whole is not None:
            target = whole["Target"]
            self._fire(key[1], target["Arn"], json.loads(target.get("Input") or "{}"))
