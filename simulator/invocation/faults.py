"""Faults on calls and messages: `fault` and `events` steps of a scenario, armed and used up, and random ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from simulator.clock import VirtualClock
from simulator.invocation.calls import Fault
from simulator.record import Recorder

DUPLICATE: Final = "duplicate"
DELAY: Final = "delay"
DROP: Final = "drop"
COPY_AFTER: Final = timedelta(milliseconds=500)
"""Time between a message and its copy, so that the copy comes in another batch while the first one is being handled."""

EVENT_KINDS: Final = (DUPLICATE, DELAY, DROP)

Draw = Callable[[str, str], Fault | None]
"""Fault on an attempt that no armed fault strikes, by function and call."""

DrawMessage = Callable[[str], tuple[str, timedelta] | None]
"""Fault on a message on its way (kind, delay)."""


class _Armed(msgspec.Struct, kw_only=True):
    pattern: re.Pattern[str]
    call: str
    fault: Fault
    function: str
    nth: int | None
    left: int | None
    until: datetime | None
    seen: int = 0
    used: int = 0

    def is_live(self, now: datetime) -> bool:
        return (self.left is None or self.left > 0) and (self.until is None or now <= self.until)

    def matches(self, function: str, call: str) -> bool:
        """Whether this attempt has it; the attempt is counted."""
        if self.function not in ("", function) or not self.pattern.fullmatch(call):
            return False
        self.seen += 1
        return self.nth is None or self.seen == self.nth


class Faults:
    """The armed faults, in the order of arming. Each attempt that reaches the world uses up one.

    Args:
        running: Name of the function that makes the call.
    """

    def __init__(self, clock: VirtualClock, recorder: Recorder, running: Callable[[], str] = str) -> None:
        self._clock = clock
        self._recorder = recorder
        self._running = running
        self._all: list[_Armed] = []
        self._live: list[_Armed] = []
        self._draw: Draw | None = None

    def arm(
        self,
        call: str,
        fault: Fault,
        *,
        count: int | None = None,
        lasting: timedelta | None = None,
        function: str = "",
        nth: int | None = None,
    ) -> None:
        """Arm a fault.

        Args:
            call: The calls that it affects; `*` matches any characters.
            fault: The fault.
            count: How many attempts it affects; None: all.
            lasting: How long from now it is armed; None: until it is used up.
            function: The function whose calls it affects; empty: all functions.
            nth: It affects only the attempt of this number from now on; None: each.
        """
        until = None if lasting is None else self._clock.now() + lasting
        pattern = re.compile(".*".join(re.escape(part) for part in call.split("*")))
        armed = _Armed(pattern=pattern, call=call, fault=fault, function=function, nth=nth, left=count, until=until)
        self._all.append(armed)
        self._live.append(armed)

    def draw_from(self, draw: Draw) -> None:
        """Ask `draw` about each attempt that has no armed fault."""
        self._draw = draw

    def take(self, call: str) -> Fault | None:
        """Return and use up the fault of this attempt; None for none."""
        if not self._live and self._draw is None:
            return None
        function = self._running()
        fault = self._armed(function, call)
        if fault is None and self._draw is not None:
            fault = self._draw(function, call)
        if fault is not None:
            self._recorder.emit("fault", call=call, kind=fault.kind, **({"function": function} if function else {}))
        return fault

    def unused(self) -> tuple[str, ...]:
        """Return the calls, as written, of faults that never struck."""
        return tuple(armed.call for armed in self._all if armed.used == 0)

    def _armed(self, function: str, call: str) -> Fault | None:
        if not self._live:
            return None
        now = self._clock.now()
        self._live = [armed for armed in self._live if armed.is_live(now)]
        armed = next((armed for armed in self._live if armed.matches(function, call)), None)
        if armed is None:
            return None
        armed.used += 1
        if armed.left is not None:
            armed.left -= 1
        return armed.fault


class MessageFaults:
    """The faults of the next messages on their way to functions."""

    def __init__(self, clock: VirtualClock, recorder: Recorder) -> None:
        self._clock = clock
        self._recorder = recorder
        self._armed: list[tuple[str, timedelta]] = []
        self._draw: DrawMessage | None = None

    def arm(self, kind: str, count: int, delay: timedelta) -> None:
        """Arm `kind` for the next `count` messages."""
        self._armed += [(kind, delay)] * count

    def draw_from(self, draw: DrawMessage) -> None:
        """Ask `draw` about each message that has no armed fault."""
        self._draw = draw

    def carry(self, what: str, deliver: Callable[[], None]) -> None:
        """Deliver a message, unless a fault doubles, delays or drops it on the way."""
        fault = self._armed.pop(0) if self._armed else None
        if fault is None and self._draw is not None:
            fault = self._draw(what)
        if fault is None:
            deliver()
            return
        kind, delay = fault
        self._recorder.emit("fault", call=what, kind=kind)
        if kind == DELAY:
            self._clock.after(delay, deliver)
        elif kind == DUPLICATE:
            deliver()
            self._clock.after(COPY_AFTER, deliver)
