"""Applies time and faults to a function's calls to the cluster's API."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Final, Literal

from adapters.ports import ConflictError, DeniedError, LostReplyError, PortError, ThrottledError, TransientError
from simulator.invocation import calls
from simulator.invocation.calls import CrashError, Fault
from simulator.invocation.faults import Faults
from simulator.invocation.latency import latency


class ClusterCalls:
    """The hook around each call. Nothing else runs between a call's `before` and its `after`."""

    def __init__(self, faults: Faults, spend: Callable[[timedelta], None]) -> None:
        self._faults = faults
        self._spend = spend
        self._fault: Fault | None = None

    def __call__(self, call: str, when: Literal["before", "after"]) -> None:
        """Let time pass before a call, and let the armed fault strike before or after it."""
        if when == "before":
            self._before(call)
        else:
            self._after(call)

    def _before(self, call: str) -> None:
        self._spend(latency(call))
        fault = self._fault = self._faults.take(call)
        if fault is None:
            return
        error = _refusal(call, fault)
        if error is not None:
            raise error
        if fault.kind == calls.CRASH_BEFORE:
            raise CrashError(call)
        if fault.kind == calls.DELAY:
            self._spend(fault.delay)
            self._fault = None

    def _after(self, call: str) -> None:
        fault, self._fault = self._fault, None
        if fault is None:
            return
        if fault.kind == calls.LOST_REPLY:
            raise LostReplyError(call, "no answer came")
        if fault.kind == calls.CRASH_AFTER:
            raise CrashError(call)
        if fault.kind == calls.STALE:
            # The answer is as old as its network latency.
            self._spend(fault.delay)


def _refusal(call: str, fault: Fault) -> PortError | None:
    """Return what the adapter would raise for the API server's answer; None if the fault is of another kind."""
    status = _STATUS.get(fault.kind, "")
    if fault.kind == calls.DENIED:
        status = fault.code or status
    if fault.kind == calls.CONFLICT and not call.startswith(_WRITES):
        return None
    return _ERRORS[status](call, f"{status} embedded in a scenario") if status in _ERRORS else None


_WRITES: Final = ("kube:create", "kube:patch", "kube:delete")
_STATUS: Final = {calls.THROTTLE: "429", calls.ERROR: "500", calls.DENIED: "403", calls.CONFLICT: "409"}
_ERRORS: Final[dict[str, type[PortError]]] = {
    "401": DeniedError,
    "403": DeniedError,
    "409": ConflictError,
    "410": TransientError,
    "429": ThrottledError,
    "500": TransientError,
    "503": TransientError,
}
"""As the real adapter takes them, after its own renewed token (401) and fresh lists (410)."""
