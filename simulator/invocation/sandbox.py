"""One invocation of a function in virtual time: its context, how long it takes, how it ends."""

from __future__ import annotations

import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, Final, Protocol

import msgspec

from installation.wiring import FunctionSpec
from simulator.clock import VirtualClock
from simulator.invocation.faults import CrashError, TimeoutExpiredError
from simulator.record import Recorder

# Processor time and memory of an invocation: counted, the same in every run, or measured.


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

    def limit(self, remaining: timedelta) -> None:
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

    def limit(self, remaining: timedelta) -> None:
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

    def limit(self, remaining: timedelta) -> None:
        """Raise TimeoutExpiredError in the invocation when it has worked this much more."""
        microseconds = max(remaining, timedelta(0)) / timedelta(microseconds=1)
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

    def limit(self, remaining: timedelta) -> None:
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


# What Lambda tells a handler about its invocation.


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Lambda's context of an invocation."""

    function_name: str
    memory_limit_in_mb: int
    aws_request_id: str
    clock: VirtualClock
    deadline: datetime
    uncharged: Callable[[], timedelta] = timedelta
    function_version: str = "$LATEST"
    log_stream_name: str = "simulated"

    @property
    def log_group_name(self) -> str:
        """Its log group."""
        return f"/aws/lambda/{self.function_name}"

    @property
    def invoked_function_arn(self) -> str:
        """Its ARN."""
        return f"arn:aws:lambda:us-east-1:123456789012:function:{self.function_name}"

    def get_remaining_time_in_millis(self) -> int:
        """How long the invocation may still run."""
        remaining = self.deadline - self.clock.now() - self.uncharged()
        return max(0, round(remaining / timedelta(milliseconds=1)))


OK: Final = "ok"
ERROR: Final = "error"
TIMEOUT: Final = "timeout"
CRASH: Final = "crash"

WARM_START: Final = timedelta(milliseconds=20)
COLD_START: Final = timedelta(milliseconds=700)
"""Sandbox, interpreter, imports and clients of a small Python function on arm64."""

Handler = Callable[[dict[str, Any], Any], dict[str, Any] | None]


class _Invocation(msgspec.Struct, kw_only=True):
    """The invocation that runs, or one of its threads.

    Attributes:
        called_at: When it made its present call to AWS, or the last one.
        work: What it has worked.
        charged: How much of that has passed in virtual time.
        lineage: Function → how many of its invocations lie in the chain up to this one, itself included.
    """

    function: str
    started: datetime
    deadline: datetime
    called_at: datetime
    lineage: Mapping[str, int]
    work: Work = Uncounted()
    charged: timedelta = timedelta(0)


class Sandboxes:
    """The sandboxes that functions run in. A sandbox is reused until its function crashes or times out.

    Attributes:
        failures: Exceptions of handlers, with tracebacks, for people.

    Args:
        build: Creates the state that a new sandbox keeps between invocations.
        use: Makes that state current for the handlers, right before one runs.
        handler_of: The handler of a function.
        processor: What processor time does to virtual time, and its factor.
        memory_mib: What a function may use before it crashes; None: no limit.
    """

    def __init__(
        self,
        clock: VirtualClock,
        recorder: Recorder,
        *,
        build: Callable[[FunctionSpec], Any],
        use: Callable[[Any], None],
        handler_of: Callable[[FunctionSpec], Handler],
        processor: tuple[str, float] = ("none", 1.0),
        memory_mib: int | None = None,
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self._build = build
        self._use = use
        self._handler_of = handler_of
        self._idle: dict[str, list[Any]] = {}
        self._running: dict[str, int] = {}
        self._current: _Invocation | None = None
        self._requests = 0
        self._processor = processor
        self._memory_mib = memory_mib
        self._memory = Memory() if memory_mib is not None or processor[0] != "none" else None
        self.failures: list[str] = []
        self.cpu_seconds: dict[str, float] = {}
        self.peak_memory_mib: dict[str, int] = {}

    def running(self) -> str:
        """Return the name of the running function, empty for none."""
        return "" if self._current is None else self._current.function

    def running_since(self) -> datetime | None:
        """When the function that runs was started, None where none does."""
        return None if self._current is None else self._current.started

    def called_at(self) -> datetime | None:
        """When the function that runs made its present call to AWS, None where none runs."""
        return None if self._current is None else self._current.called_at

    def lineage(self) -> Mapping[str, int]:
        """Return the chain of the function that runs, empty where none does."""
        return {} if self._current is None else self._current.lineage

    def note_call(self) -> None:
        """Record that the function that runs makes a call to AWS; its retries belong to it."""
        if self._current is not None:
            self._current.called_at = self._clock.now()

    def worked(self) -> timedelta:
        """The processor time of the invocation that runs, as the world counts it."""
        return timedelta(0) if self._current is None else self._current.work.taken()

    def uncharged(self) -> timedelta:
        """How much of that has not passed in virtual time yet."""
        current = self._current
        return timedelta(0) if current is None else current.work.taken() - current.charged

    def has_room(self, function: FunctionSpec) -> bool:
        """Return whether the function's concurrency allows one more."""
        return function.concurrency is None or self._running.get(function.name, 0) < function.concurrency

    def spend(self, duration: timedelta) -> None:
        """Let time pass in the function that runs.

        Raises:
            TimeoutExpiredError: If its time-out comes first.
        """
        current = self._current
        if current is None:
            self._spend(duration)
            return
        self._check_memory()
        with current.work.aside():
            worked = current.work.taken()
            duration, current.charged = duration + worked - current.charged, worked
            if self._clock.now() + duration < current.deadline:
                self._spend(duration)
                current.work.limit(current.deadline - self._clock.now())
                return
            self._spend(max(current.deadline - self._clock.now(), timedelta(0)))
        raise TimeoutExpiredError

    def elsewhere(self) -> AbstractContextManager[None]:
        """Return a context for what another machine does: it is no work of the function that runs."""
        context: AbstractContextManager[None] = (_NO_WORK if self._current is None else self._current.work).aside()
        return context

    def side_by_side(self, tasks: Sequence[Callable[[], None]], patience: timedelta) -> tuple[bool, ...]:
        """Run tasks of the function that runs at the same time, as threads do (`adapters.runtime`).

        Raises:
            CrashError: If one of them raises it, after all have ended: the function crashes.
        """
        del patience  # their own time-outs end sooner than the function's
        invocation, crashes = self._current, list[CrashError]()

        def run(task: Callable[[], None]) -> None:
            self._current = None if invocation is None else msgspec.structs.replace(invocation)
            try:
                with (_NO_WORK if invocation is None else invocation.work).within():
                    task()
            except CrashError as crash:
                crashes.append(crash)
            finally:
                self._current = None

        self._current = None
        try:
            self._clock.side_by_side([partial(run, task) for task in tasks])
        finally:
            self._current = invocation
        if crashes:
            raise crashes[0]
        return (True,) * len(tasks)

    def invoke(
        self,
        function: FunctionSpec,
        event: dict[str, Any],
        trigger: str,
        done: Callable[[str, dict[str, Any] | None], None],
        lineage: Mapping[str, int] | None = None,
    ) -> None:
        """Run the function. `done(outcome, response)` is called at its end, which may be later than now.

        `lineage` is the chain that led to it, without itself; only messages of queues carry one.
        """
        chain = dict(lineage or {})
        chain[function.name] = chain.get(function.name, 0) + 1
        self._running[function.name] = self._running.get(function.name, 0) + 1
        # Not at once: what the caller still puts on the clock for this moment must be there when the function first waits.
        self._clock.begin(lambda: self._run(function, event, trigger, done, chain))

    def _run(
        self,
        function: FunctionSpec,
        event: dict[str, Any],
        trigger: str,
        done: Callable[[str, dict[str, Any] | None], None],
        chain: Mapping[str, int],
    ) -> None:
        started, work = self._clock.now(), work_of(*self._processor, self._check_memory)
        invocation = self._current = _Invocation(
            function=function.name,
            started=started,
            deadline=started + function.timeout,
            called_at=started,
            work=work,
            lineage=chain,
        )
        if self._memory is not None:
            self._memory.begin()
        try:
            outcome, response, error = self._attempt(function, event, started)
        finally:
            self._current = None
        self._note_use(function.name, invocation)
        self._running[function.name] -= 1
        self._recorder.emit(
            "invocation",
            function=function.name,
            trigger=trigger,
            durationMillis=round((self._clock.now() - started) / timedelta(milliseconds=1)),
            outcome=outcome,
            error=error,
            isolated=isolated_in(response),
            cpuMillis=round(work.taken() / timedelta(milliseconds=1)),
            hops=chain[function.name],
        )
        done(outcome, response if outcome == OK else {"errorType": error})

    def _note_use(self, name: str, invocation: _Invocation) -> None:
        """Add an invocation's processor time and memory to the figures of its function."""
        if self._processor[0] != "none":
            seconds = invocation.work.taken().total_seconds()
            self.cpu_seconds[name] = self.cpu_seconds.get(name, 0.0) + seconds
        if self._memory is not None:
            self.peak_memory_mib[name] = max(self.peak_memory_mib.get(name, 0), self._memory.peak_mib())

    def _check_memory(self) -> None:
        if self._memory is not None and self._memory_mib is not None and self._memory.peak_mib() > self._memory_mib:
            raise MemoryExceededError

    def _attempt(
        self, function: FunctionSpec, event: dict[str, Any], started: datetime
    ) -> tuple[str, dict[str, Any] | None, str]:
        idle = self._idle.setdefault(function.name, [])
        context = self._context(function, started)
        try:
            application = idle.pop() if idle else self._cold_start(function)
            self.spend(WARM_START)
            response = self._call(function, application, event, context)
            self.spend(timedelta(0))
        except TimeoutExpiredError:
            return TIMEOUT, None, ""
        except CrashError as crash:
            return CRASH, None, type(crash).__name__ if isinstance(crash, MemoryExceededError) else ""
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is an invocation that failed
            self.failures.append(f"{function.name}\n{_traceback(error)}")
            return ERROR, None, type(error).__name__
        return OK, response, ""

    def _call(
        self, function: FunctionSpec, application: Any, event: dict[str, Any], context: Context
    ) -> dict[str, Any] | None:
        self._use(application)
        current = self._current
        work: Work = _NO_WORK if current is None else current.work
        if current is not None:
            work.limit(current.deadline - self._clock.now())
        try:
            with work.within():
                return self._handler_of(function)(event, context)
        except CrashError:
            application = None
            raise
        finally:
            if application is not None:
                self._idle[function.name].append(application)

    def _cold_start(self, function: FunctionSpec) -> Any:
        self.spend(COLD_START)
        return self._build(function)

    def _spend(self, duration: timedelta) -> None:
        """Let other due processes run; they have time-outs of their own."""
        if self._clock.passes(duration):
            return
        invocation, self._current = self._current, None
        try:
            self._clock.spend(duration)
        finally:
            self._current = invocation

    def _context(self, function: FunctionSpec, started: datetime) -> Context:
        self._requests += 1
        return Context(
            function_name=function.name,
            memory_limit_in_mb=function.memory_mb,
            aws_request_id=f"00000000-0000-4000-8000-{self._requests:012d}",
            clock=self._clock,
            deadline=started + function.timeout,
            uncharged=self.uncharged,
        )


_NO_WORK: Final = Uncounted()


ISOLATED: Final = "setAsideObjects"
"""The count of objects that a run set aside, in its answer."""


def isolated_in(response: Mapping[str, Any] | None) -> int:
    """Return how many objects a run set aside, by its answer."""
    return int((response or {}).get(ISOLATED, 0))


def _traceback(error: BaseException) -> str:
    """Return an exception and its causes, each with the places that it passed.

    Python's own form has the lines of code, too, for which it reads the sources in each seed's process.
    """
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = "" if cause is None else _traceback(cause)
    passed = (f"  {frame.f_code.co_filename}:{line}\n" for frame, line in traceback.walk_tb(error.__traceback__))
    return "".join((before, *passed, *traceback.format_exception_only(error)))
