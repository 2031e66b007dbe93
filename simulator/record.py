"""The record of events in the embedded world, from the world's side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from simulator.clock import VirtualClock


class Event(msgspec.Struct, frozen=True):
    """One line of the record: virtual time in RFC 3339, the event's name, its fields in order."""

    t: str
    event: str
    fields: dict[str, Any]

    def to_line(self) -> bytes:
        """The event as one JSON object."""
        return msgspec.json.encode({"t": self.t, "event": self.event, **self.fields})


class Recorder:
    """Takes events and passes them to its listeners: the file, the summary, the checkers."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._listeners: list[Callable[[Event], None]] = []

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Call `listener` with every event from now on."""
        self._listeners.append(listener)

    def emit(self, event: str, **fields: Any) -> None:
        """Record an event at the present virtual time."""
        moment = self._clock.now().isoformat().replace("+00:00", "Z")
        recorded = Event(moment, event, fields)
        for listener in self._listeners:
            listener(recorded)
