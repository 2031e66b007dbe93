"""Real time for the embedded account."""

from __future__ import annotations

import heapq
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from simulator.clock import VirtualClock

IDLE_SECONDS: Final = 1.0
"""How long the clock's thread waits when nothing is due sooner."""


class WallClock(VirtualClock):
    """The simulator's clock in real time: one thread runs each action at its time.

    Attributes:
        lock: Held while an action runs; other code that changes the same state must hold it, too.
    """

    def __init__(self) -> None:
        super().__init__(datetime.now(UTC))
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._due: list[tuple[datetime, int, Callable[[], None]]] = []
        self._number = 0
        self._is_running = False
        self._thread = threading.Thread(target=self._run, name="wall-clock", daemon=True)
        self.failures: list[Exception] = []

    def start(self) -> None:
        """Start running actions."""
        self._is_running = True
        self._thread.start()

    def stop(self) -> None:
        """Stop; pending actions never run."""
        with self._changed:
            self._is_running = False
            self._changed.notify_all()
        self._thread.join()

    def now(self) -> datetime:
        """The present moment."""
        return datetime.now(UTC)

    def at(self, when: datetime, action: Callable[[], None]) -> None:
        """Run `action` at `when`, or next if that is past."""
        with self._changed:
            self._number += 1
            heapq.heappush(self._due, (when, self._number, action))
            self._changed.notify_all()

    def after(self, delay: timedelta, action: Callable[[], None]) -> None:
        """Run `action` after `delay`."""
        self.at(self.now() + delay, action)

    def spend(self, duration: timedelta) -> None:
        """Let time pass in the caller's thread."""
        time.sleep(duration.total_seconds())

    def _run(self) -> None:
        with self._changed:
            while self._is_running:
                wait = (self._due[0][0] - self.now()).total_seconds() if self._due else IDLE_SECONDS
                if wait > 0:
                    self._changed.wait(min(wait, IDLE_SECONDS))
                    continue
                self._perform(heapq.heappop(self._due)[2])

    def _perform(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as failure:  # noqa: BLE001 - one action that fails must not stop the clock; the test reads it
            self.failures.append(failure)
