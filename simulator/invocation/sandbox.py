"""One invocation of a function in virtual time: its context, how long it takes, how it ends."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final

import msgspec

from installation.wiring import FunctionSpec
from simulator.clock import VirtualClock
from simulator.invocation.faults import CrashError, TimeoutExpiredError
from simulator.record import Recorder

# What Lambda tells a handler about its invocation.


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Lambda's context of an invocation."""

    function_name: str
    memory_limit_in_mb: int
    aws_request_id: str
    clock: VirtualClock
    deadline: datetime
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
        return max(0, round((self.deadline - self.clock.now()) / timedelta(milliseconds=1)))


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
        lineage: Function → how many of its invocations lie in the chain up to this one, itself included.
    """

    function: str
    started: datetime
    deadline: datetime
    called_at: datetime
    lineage: Mapping[str, int]


class Sandboxes:
    """The sandboxes that functions run in. A sandbox is reused until its function crashes or times out.

    Attributes:
        failures: Exceptions of handlers, with tracebacks, for people.

    Args:
        build: Creates the state that a new sandbox keeps between invocations.
        use: Makes that state current for the handlers, right before one runs.
        handler_of: The handler of a function.
    """

    def __init__(
        self,
        clock: VirtualClock,
        recorder: Recorder,
        *,
        build: Callable[[FunctionSpec], Any],
        use: Callable[[Any], None],
        handler_of: Callable[[FunctionSpec], Handler],
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
        self.failures: list[str] = []

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

    def has_room(self, function: FunctionSpec) -> bool:
        """Return whether the function's concurrency allows one more."""
        return function.concurrency is None or self._running.get(function.name, 0) < function.concurrency

    def spend(self, duration: timedelta) -> None:
        """Let time pass in the function that runs.

        Raises:
            TimeoutExpiredError: If its time-out comes first.
        """
        current = self._current
        if current is None or self._clock.now() + duration < current.deadline:
            self._spend(duration)
            return
        self._spend(max(current.deadline - self._clock.now(), timedelta(0)))
        raise TimeoutExpiredError

    def side_by_side(self, tasks: Sequence[Callable[[], None]], patience: timedelta) -> tuple[bool, ...]:
        """Run tasks of the function that runs at the same time, as threads do (`adapters.runtime`).

        Raises:
            CrashError: If one of them raises it, after all have ended: the function crashes.
        """
        del patience  # their own time-outs end sooner than the function's
        own, crashes = self._current, list[CrashError]()

        def run(task: Callable[[], None]) -> None:
            self._current = None if own is None else msgspec.structs.replace(own)
            try:
                task()
            except CrashError as crash:
                crashes.append(crash)
            finally:
                self._current = None

        self._current = None
        try:
            self._clock.side_by_side([partial(run, task) for task in tasks])
        finally:
            self._current = own
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
        started = self._clock.now()
        self._current = _Invocation(
            function=function.name,
            started=started,
            deadline=started + function.timeout,
            called_at=started,
            lineage=chain,
        )
        try:
            outcome, response = self._attempt(function, event, started)
        finally:
            self._current = None
        self._running[function.name] -= 1
        self._recorder.emit(
            "invocation",
            function=function.name,
            trigger=trigger,
            durationMillis=round((self._clock.now() - started) / timedelta(milliseconds=1)),
            outcome=outcome,
            hops=chain[function.name],
        )
        done(outcome, response)

    def _attempt(
        self, function: FunctionSpec, event: dict[str, Any], started: datetime
    ) -> tuple[str, dict[str, Any] | None]:
        idle = self._idle.setdefault(function.name, [])
        context = self._context(function, started)
        try:
            application = idle.pop() if idle else self._cold_start(function)
            self.spend(WARM_START)
            response = self._call(function, application, event, context)
        except TimeoutExpiredError:
            return TIMEOUT, None
        except CrashError:
            return CRASH, None
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is an invocation that failed
            self.failures.append(f"{function.name}\n{_traceback(error)}")
            return ERROR, None
        return OK, response

    def _call(
        self, function: FunctionSpec, application: Any, event: dict[str, Any], context: Context
    ) -> dict[str, Any] | None:
        self._use(application)
        try:
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
        own, self._current = self._current, None
        try:
            self._clock.spend(duration)
        finally:
            self._current = own

    def _context(self, function: FunctionSpec, started: datetime) -> Context:
        self._requests += 1
        return Context(
            function_name=function.name,
            memory_limit_in_mb=function.memory_mb,
            aws_request_id=f"00000000-0000-4000-8000-{self._requests:012d}",
            clock=self._clock,
            deadline=started + function.timeout,
        )


def _traceback(error: BaseException) -> str:
    """Return an exception and its causes, each with the places that it passed.

    Python's own form has the lines of code, too, for which it reads the sources in each seed's process.
    """
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = "" if cause is None else _traceback(cause)
    passed = (f"  {frame.f_code.co_filename}:{line}\n" for frame, line in traceback.walk_tb(error.__traceback__))
    return "".join((before, *passed, *traceback.format_exception_only(error)))
