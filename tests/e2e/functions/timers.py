"""Things to be done later, by the machine's clock."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from datetime import timedelta


class Timers:
    """One thread that does short things when their time comes; what is due after `close` is not done."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._changed = threading.Condition()
        self._is_open = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def after(self, delay: timedelta, do: Callable[[], None]) -> None:
        """Run the action after this time."""
        with self._changed:
            heapq.heappush(self._entries, (time.monotonic() + delay.total_seconds(), next(self._numbers), do))
            self._changed.notify()

    def every(self, period: timedelta, do: Callable[[], None], *, first: timedelta | None = None) -> None:
        """Run the action periodically, first after one period by default."""

        def again() -> None:
            self.after(period, again)
            do()

        self.after(period if first is None else first, again)

    def close(self) -> None:
        """Stop; returns when no action runs any more."""
        with self._changed:
            self._is_open = False
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._is_open and (not self._entries or self._entries[0][0] > time.monotonic()):
                    wait = self._entries[0][0] - time.monotonic() if self._entries else None
                    self._changed.wait(wait)
                if not self._is_open:
                    return
                _, _, do = heapq.heappop(self._entries)
            do()
