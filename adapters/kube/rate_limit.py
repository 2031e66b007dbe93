"""Limits the requests of one sandbox to the API server: a token bucket."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Final

PER_SECOND: Final = 200
BURST: Final = 300
"""Karpenter's figures for its client. They limit one client; the server's priority and fairness balances all clients."""


class RateLimit:
    """Lets `burst` requests through at once and `per_second` from then on; later ones wait their turn. Threads may share it.

    Args:
        now, pause: A monotonic clock in seconds, and a function that waits that many seconds.
    """

    def __init__(
        self,
        per_second: float = PER_SECOND,
        burst: int = BURST,
        *,
        now: Callable[[], float] = time.monotonic,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_second = per_second
        self._burst = burst
        self._now = now
        self._pause = pause
        self._lock = Lock()
        self._tokens = float(burst)
        self._refilled = now()

    def __call__(self) -> None:
        """Wait until the next request may be sent."""
        with self._lock:
            moment = self._now()
            refilled = self._tokens + (moment - self._refilled) * self._per_second
            self._tokens = min(float(self._burst), refilled) - 1
            self._refilled = moment
            wait = -self._tokens / self._per_second
        if wait > 0:
            self._pause(wait)
