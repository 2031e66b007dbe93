"""Ports that wake functions and notify people: queues, schedules and a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from core.api.objects import JsonObject


class Queue(Protocol):
    """A queue of small JSON messages."""

    def send(self, messages: Iterable[JsonObject], *, delay: timedelta = timedelta(0)) -> None:
        """Send all messages; each may arrive more than once, late, or out of order. Delays over 15 minutes are cut to that."""
        ...


class FunctionQueues(msgspec.Struct, frozen=True, kw_only=True):
    """The queues that wake `provision`, `execute` and `disrupt`."""

    wake_ups: Queue
    work: Queue
    run_requests: Queue


class WindowSchedules(Protocol):
    """EventBridge Scheduler entries that wake `disrupt` when a budget window opens or closes."""

    def replace(self, wanted: Mapping[str, str]) -> None:
        """Make the group contain exactly these: name → schedule expression."""
        ...


class Topic(Protocol):
    """Messages to the people who subscribe."""

    def publish(self, subject: str, text: str) -> None:
        """Send one message to all subscribers; `subject` is one line of at most 100 ASCII characters. Raises PortError."""
        ...
