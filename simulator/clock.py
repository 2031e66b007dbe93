"""Virtual time: a queue of things to happen, each at its moment, ties in the order in which they were asked for."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from datetime import datetime, timedelta


class VirtualClock:
    """The world's only clock. Time moves when `run_until` takes the next event from the queue, and never otherwise."""

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._sequence = 0
        self._queue: list[tuple[datetime, int, Callable[[], None]]] = []
        self._on_move: list[Callable[[datetime], None]] = []

    def now(self) -> datetime:
        """The present virtual moment."""
        return self._now

    def on_move(self, listener: Callable[[datetime], None]) -> None:
        """Call `listener` with the new time whenever time moves; moto's clock follows this way."""
        self._on_move.append(listener)

    def at(self, when: datetime, action: Callable[[], None]) -> None:
        """Do `action` at `when`, or next if that is past."""
        self._sequence += 1
        heapq.heappush(self._queue, (max(when, self._now), self._sequence, action))

    def after(self, delay: timedelta, action: Callable[[], None]) -> None:
        """Do `action` once `delay` has passed."""
        self.at(self._now + delay, action)

    def spend(self, duration: timedelta) -> None:
        """Let time pass inside an action, as a running function does; what falls due meanwhile happens after it."""
        self._move(self._now + duration)

    def run_until(self, end: datetime) -> None:
        """Let everything happen that is due up to and including `end`."""
        while self._queue and self._queue[0][0] <= end:
            when, _, action = heapq.heappop(self._queue)
            self._move(when)
            action()
        self._move(end)

    def _move(self, when: datetime) -> None:
        if when <= self._now:
            return
        self._now = when
        for listener in self._on_move:
            listener(when)
