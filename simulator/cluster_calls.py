"""What befalls a function's calls to the cluster's API: time passes, and faults strike."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Literal

from lambdas.ports import LostReplyError, TransientError
from simulator import calls
from simulator.calls import CrashError
from simulator.faults import Faults
from simulator.latency import latency


class ClusterCalls:
    """The hook around each call. Nothing else runs between a call's `before` and its `after`."""

    def __init__(self, faults: Faults, spend: Callable[[timedelta], None]) -> None:
        self._faults = faults
        self._spend = spend
        self._strikes_after = ""

    def __call__(self, call: str, when: Literal["before", "after"]) -> None:
        """Let time pass before a call, and let the armed fault strike before or after it."""
        if when == "before":
            self._before(call)
        else:
            self._after(call)

    def _before(self, call: str) -> None:
        self._spend(latency(call))
        self._strikes_after = ""
        kind, delay = self._faults.take(call) or ("", timedelta(0))
        if kind == calls.THROTTLE:
            raise TransientError(call, "429 Too Many Requests")
        if kind == calls.ERROR:
            raise TransientError(call, "500 Internal Server Error")
        if kind == calls.CRASH_BEFORE:
            raise CrashError(call)
        if kind == calls.DELAY:
            self._spend(delay)
        self._strikes_after = kind

    def _after(self, call: str) -> None:
        if self._strikes_after == calls.LOST_REPLY:
            raise LostReplyError(call, "no answer came")
        if self._strikes_after == calls.CRASH_AFTER:
            raise CrashError(call)
