"""Processor time and memory of an invocation: counted, the same in every run, or measured."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol

from simulator.invocation.faults import CrashError, TimeoutExpiredError

EVENTS_IN_MICROSECOND: Final = 10
"""Counted events that take a microsecond of processor time: each is a call of a Python or C function, or its return."""

BASE_MEMORY_MIB: Final = 110
"""What a sandbox of a small function uses before it does anything: interpreter, imports, clients."""

_STATUS: Final = Path("/proc/self/status")
_RESET: Final = Path("/proc/self/clear_refs")
_RESET_PEAK: Final = "5"
_KIB_IN_MIB: Final = 1024
_CHECK_EVERY: Final = 200_000
"""Counted events between two checks of the memory."""


_NOTHING: Final = nullcontext()


class MemoryExceededError(CrashError):
    """The function used more memory than it has: Lambda ends it."""


class Work(Protocol):
    """What one invocation worked."""

    def taken(self) -> timedelta:
        """The processor time so far."""
        ...

    def limit(self, left: timedelta) -> None:
        """End the invocation when it has worked this much more."""
        ...

    def within(self) -> AbstractContextManager[None]:
        """A context in which this thread works for the invocation."""
        ...

    def aside(self) -> AbstractContextManager[None]:
        """A context in which this thread does what another machine does."""
        ...


class Uncounted:
    """Work takes no time."""

    def taken(self) -> timedelta:
        """Return zero."""
        return timedelta(0)

    def limit(self, left: timedelta) -> None:
        """Nothing ends it."""

    def within(self) -> AbstractContextManager[None]:
        """Nothing is counted."""
        return _NOTHING

    aside = within


class Counted:
    """Counts calls and returns of functions with the interpreter's profiler hook.

    Args:
        check: Called now and then; raises what ends the invocation.
    """

    def __init__(self, factor: float, check: Callable[[], None] = lambda: None) -> None:
        self._factor = factor
        self._check = check
        self._events = 0
        self._end: float = float("inf")
        self._next_check = _CHECK_EVERY

    def taken(self) -> timedelta:
        """The counted time so far."""
        return timedelta(microseconds=self._events * self._factor / EVENTS_IN_MICROSECOND)

    def limit(self, left: timedelta) -> None:
        """Raise TimeoutExpiredError in the invocation when it has worked this much more."""
        microseconds = max(left, timedelta(0)) / timedelta(microseconds=1)
        self._end = self._events + microseconds * EVENTS_IN_MICROSECOND / self._factor

    @contextmanager
    def within(self) -> Iterator[None]:
        """Count what this thread does."""
        before = sys.getprofile()
        sys.setprofile(self._count)
        try:
            yield
        finally:
            sys.setprofile(before)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do not count what this thread does."""
        before = sys.getprofile()
        sys.setprofile(None)
        try:
            yield
        finally:
            sys.setprofile(before)

    def _count(self, _frame: FrameType, _event: str, _arg: Any) -> None:
        self._events += 1
        if self._events >= self._next_check:
            self._next_check = self._events + _CHECK_EVERY
            self._check()
        if self._events > self._end:
            self._end = float("inf")
            raise TimeoutExpiredError


class Measured:
    """Measures the processor time of the threads that work for the invocation."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._done = 0.0
        self._own = threading.local()

    def taken(self) -> timedelta:
        """The measured time so far, that of this thread up to now."""
        since = getattr(self._own, "since", None)
        running = 0.0 if since is None else time.thread_time() - since
        return timedelta(seconds=(self._done + running) * self._factor)

    def limit(self, left: timedelta) -> None:
        """Nothing interrupts it: its time is charged when it makes a call, or ends."""

    @contextmanager
    def within(self) -> Iterator[None]:
        """Measure what this thread does."""
        self._own.since = time.thread_time()
        try:
            yield
        finally:
            self._stop()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Do not measure what this thread does."""
        was_running = getattr(self._own, "since", None) is not None
        if was_running:
            self._stop()
        try:
            yield
        finally:
            if was_running:
                self._own.since = time.thread_time()

    def _stop(self) -> None:
        self._done += time.thread_time() - self._own.since
        self._own.since = None


def work_of(kind: str, factor: float, check: Callable[[], None] = lambda: None) -> Work:
    """Return what counts one invocation's work: `counted`, `measured` or `none`."""
    if kind == "counted":
        return Counted(factor, check)
    return Measured(factor) if kind == "measured" else Uncounted()


class Memory:
    """How much memory this process used at most since `begin`, as one function would use it.

    Invocations that overlap share the process, so each has the memory of both.
    """

    def __init__(self) -> None:
        self._before = 0

    def begin(self) -> None:
        """Forget the peak of earlier invocations."""
        with suppress(OSError):
            _RESET.write_text(_RESET_PEAK)
        self._before = _kib("VmRSS")

    def peak_mib(self) -> int:
        """The peak in MiB, with what a sandbox uses before it does anything."""
        return BASE_MEMORY_MIB + max(0, _kib("VmHWM") - self._before) // _KIB_IN_MIB


def _kib(name: str) -> int:
    try:
        line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    except (OSError, StopIteration):
        return 0
    return int(line.split()[1])
