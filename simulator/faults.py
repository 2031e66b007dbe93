"""What befalls calls and messages: the `fault` and `events` steps of a scenario, armed and used up."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final

import msgspec

from simulator.clock import VirtualClock
from simulator.record import Recorder

DUPLICATE: Final = "duplicate"
DELAY: Final = "delay"
DROP: Final = "drop"
COPY_AFTER: Final = timedelta(milliseconds=500)
"""Between a message and its copy: the copy is not in the same batch, and meets the first one at work."""

EVENT_KINDS: Final = (DUPLICATE, DELAY, DROP)


class _Armed(msgspec.Struct, kw_only=True):
    pattern: re.Pattern[str]
    call: str
    kind: str
    delay: timedelta
    left: int | None
    until: datetime | None
    used: int = 0

    def is_live(self, now: datetime) -> bool:
        return (self.left is None or self.left > 0) and (self.until is None or now <= self.until)


class Faults:
    """The faults that are armed; the one armed first goes first. Each attempt that reaches the world uses up one."""

    def __init__(self, clock: VirtualClock, recorder: Recorder) -> None:
        self._clock = clock
        self._recorder = recorder
        self._all: list[_Armed] = []
        self._live: list[_Armed] = []

    def arm(
        self,
        call: str,
        kind: str,
        *,
        count: int | None = None,
        lasting: timedelta | None = None,
        delay: timedelta = timedelta(0),
    ) -> None:
        """Arm a fault.

        Args:
            call: Which calls it befalls; `*` stands for any run of characters.
            kind: What happens to them.
            count: How many attempts it befalls; None: all.
            lasting: For how long from now it is armed; None: until it is used up.
            delay: How long the kind `delay` holds a call up.
        """
        until = None if lasting is None else self._clock.now() + lasting
        pattern = re.compile(".*".join(re.escape(part) for part in call.split("*")))
        armed = _Armed(pattern=pattern, call=call, kind=kind, delay=delay, left=count, until=until)
        self._all.append(armed)
        self._live.append(armed)

    def concerns(self, name: str) -> bool:
        """Whether a fault is armed for calls of this name."""
        return bool(self._live) and self._next(name) is not None

    def take(self, name: str) -> tuple[str, timedelta] | None:
        """The fault that befalls this attempt, None for none; a delay comes with its duration."""
        armed = self._next(name) if self._live else None
        if armed is None:
            return None
        armed.used += 1
        if armed.left is not None:
            armed.left -= 1
        self._recorder.emit("fault", call=name, kind=armed.kind)
        return armed.kind, armed.delay

    def unused(self) -> tuple[str, ...]:
        """The calls, as written, of faults that nobody ran into."""
        return tuple(armed.call for armed in self._all if armed.used == 0)

    def _next(self, name: str) -> _Armed | None:
        now = self._clock.now()
        self._live = [armed for armed in self._live if armed.is_live(now)]
        return next((armed for armed in self._live if armed.pattern.fullmatch(name)), None)


class MessageFaults:
    """What befalls the next messages on their way to functions."""

    def __init__(self, clock: VirtualClock, recorder: Recorder) -> None:
        self._clock = clock
        self._recorder = recorder
        self._armed: list[tuple[str, timedelta]] = []

    def arm(self, kind: str, count: int, delay: timedelta) -> None:
        """Let `kind` befall the next `count` messages."""
        self._armed += [(kind, delay)] * count

    def carry(self, what: str, deliver: Callable[[], None]) -> None:
        """Deliver a message, unless a fault doubles, delays or drops it on the way."""
        if not self._armed:
            deliver()
            return
        kind, delay = self._armed.pop(0)
        self._recorder.emit("fault", call=what, kind=kind)
        if kind == DELAY:
            self._clock.after(delay, deliver)
        elif kind == DUPLICATE:
            deliver()
            self._clock.after(COPY_AFTER, deliver)
