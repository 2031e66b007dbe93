"""Fires the EventBridge Scheduler entries that functions make for budget windows. moto keeps them but never fires any."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

from simulator.aws.wire import Wire
from simulator.aws_cron import next_fire
from simulator.calls import Call
from simulator.clock import VirtualClock

Fire = Callable[[str, str, dict[str, Any]], None]


class WindowSchedules:
    """Every enabled schedule of the account: `fire(name, target ARN, input)` at each of its times."""

    def __init__(self, clock: VirtualClock, wire: Wire, fire: Fire) -> None:
        self._clock = clock
        self._fire = fire
        self._entries: dict[tuple[str, str], tuple[str, str, dict[str, Any]]] = {}
        wire.observe("scheduler:CreateSchedule", self._put)
        wire.observe("scheduler:UpdateSchedule", self._put)
        wire.observe("scheduler:DeleteSchedule", self._drop)

    def _put(self, call: Call, _: dict[str, Any]) -> None:
        key = _key(call)
        if call.parameters.get("State", "ENABLED") != "ENABLED":
            self._entries.pop(key, None)
            return
        target = call.parameters["Target"]
        entry = (call.parameters["ScheduleExpression"], target["Arn"], json.loads(target.get("Input") or "{}"))
        if self._entries.get(key) != entry:
            self._entries[key] = entry
            self._await(key, entry, self._clock.now())

    def _drop(self, call: Call, _: dict[str, Any]) -> None:
        self._entries.pop(_key(call), None)

    def _await(self, key: tuple[str, str], entry: tuple[str, str, dict[str, Any]], after: datetime) -> None:
        due = next_fire(entry[0], after)
        if due is not None:
            self._clock.at(due, lambda: self._due(key, entry, due))

    def _due(self, key: tuple[str, str], entry: tuple[str, str, dict[str, Any]], due: datetime) -> None:
        if self._entries.get(key) is not entry:
            return
        self._await(key, entry, due)
        self._fire(key[1], entry[1], entry[2])


def _key(call: Call) -> tuple[str, str]:
    return call.parameters.get("GroupName", "default"), call.parameters["Name"]
