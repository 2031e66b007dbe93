"""Delays the reactions of controllers: changed objects are marked, and reconciled a fixed time later."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from simulator.clock import VirtualClock
from simulator.cluster.objects import Key

CONTROLLER_DELAY: Final = timedelta(milliseconds=100)


class WorkQueue:
    """Keys that wait to be reconciled, in order of name; a key that is marked several times is reconciled once."""

    def __init__(
        self, clock: VirtualClock, reconcile: Callable[[Key], None], delay: timedelta = CONTROLLER_DELAY
    ) -> None:
        self._clock = clock
        self._reconcile = reconcile
        self._delay = delay
        self._waiting: set[Key] = set()

    def add(self, key: Key) -> None:
        """Reconcile `key` soon."""
        if not self._waiting:
            self._clock.after(self._delay, self._run)
        self._waiting.add(key)

    def _run(self) -> None:
        due, self._waiting = sorted(self._waiting), set()
        for key in due:
            self._reconcile(key)
