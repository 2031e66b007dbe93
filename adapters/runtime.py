"""Time and threads in Lambda: clock, pauses, stopwatch, deadline, tasks side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final, Protocol

import msgspec

from adapters.ports import Clock

PATIENCE: Final = 4
"""The longest elapsed time of a piece of work, as a multiple of its processor time."""


class SystemClock:
    """The machine's clock (`adapters.ports.Clock`)."""

    def now(self) -> datetime:
        """Return the present moment, UTC."""
        return datetime.now(UTC)

    def worked(self) -> timedelta:
        """Return the processor time of the process since it began."""
        return timedelta(seconds=time.process_time())


def pause(duration: timedelta) -> None:
    """Sleep for the given time."""
    time.sleep(duration.total_seconds())


def stopwatch(clock: Clock, runs: timedelta) -> Callable[[], float]:
    """Return a function that returns the elapsed share of the time, 1 or more when it is over; it starts at its first call.

    It counts processor time: elapsed time for the same work depends on load and configured memory.
    """
    began: list[tuple[datetime, timedelta]] = []

    def answer() -> float:
        now, worked = clock.now(), clock.worked()
        if not began:
            began.append((now, worked))
        passed = (now - began[0][0]) / PATIENCE
        return max(worked - began[0][1], passed) / runs if runs else 1.0

    return answer


def share_until(clock: Clock, end: datetime) -> Callable[[], float]:
    """Return a function that returns the elapsed share of the time from now to `end`, 1 or more when it is over."""
    begun = clock.now()
    duration = end - begun

    def answer() -> float:
        return (clock.now() - begun) / duration if duration > timedelta(0) else 1.0

    return answer


class Invocation(Protocol):
    """Lambda's information about the remaining time of an invocation."""

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds left."""
        ...


def deadline_of(invocation: Invocation, clock: Clock) -> datetime:
    """Return when the invocation is cut off."""
    return clock.now() + timedelta(milliseconds=invocation.get_remaining_time_in_millis())


# Prepares msgspec's struct types before threads decode JSON into them.


_prepared: set[type[msgspec.Struct]] = set()


def prepare_struct_types() -> None:
    """Make msgspec inspect every loaded struct type that it has not inspected yet.

    It does so when a type is first decoded, and stores the result before it is complete, since types may contain themselves: a
    second thread that decodes the same type at that moment crashes the process (msgspec 0.22.0). A new sandbox whose first
    batch holds several messages would crash this way.
    """
    for struct in _loaded(msgspec.Struct):
        if struct not in _prepared:
            with suppress(TypeError, NameError):  # a type that JSON is never decoded into
                msgspec.json.Decoder(struct)
            _prepared.add(struct)


def _loaded(base: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    for struct in base.__subclasses__():
        yield struct
        yield from _loaded(struct)


# Runs the tasks of one batch in parallel, since each mostly waits for the network, or in sequence.


WORKERS: Final = 10
"""Threads of one invocation: one for each message of a batch of the work queue.

Each uses little memory, and most of them wait.
"""

LAUNCHES: Final = 32
"""Parallel launches of one invocation: EC2 takes one to three seconds for each, 50 at once and 5 a second from then on
(`adapters.aws.dynamodb.launch_memory`)."""

Task = Callable[[], None]
RunTasks = Callable[[Sequence[Task], timedelta], tuple[bool, ...]]
"""Runs tasks for at most the given time, and returns for each whether it has ended. Tasks may not raise."""


def in_threads(tasks: Sequence[Task], timeout: timedelta, *, workers: int = WORKERS) -> tuple[bool, ...]:
    """Run tasks in up to this many threads.

    A task that is unfinished after `timeout` continues, if necessary in this sandbox's next invocation. Its writes are
    conditional on its reads, so concurrent runs of the same work are safe.
    """
    prepare_struct_types()
    pool = ThreadPoolExecutor(max_workers=workers, thread_name_prefix="task")
    running = [pool.submit(task) for task in tasks]
    wait(running, timeout=timeout.total_seconds())
    pool.shutdown(wait=False, cancel_futures=True)
    return tuple(future.done() and not future.cancelled() for future in running)


def in_turn(tasks: Sequence[Task], timeout: timedelta) -> tuple[bool, ...]:
    """Run all tasks in sequence, for simulations that need a fixed order."""
    del timeout
    for task in tasks:
        task()
    return (True,) * len(tasks)


class TaskRunners(msgspec.Struct, frozen=True):
    """The runners for the messages of a batch and the launches of a plan."""

    messages: RunTasks = in_threads
    launches: RunTasks = partial(in_threads, workers=LAUNCHES)


IN_THREADS: Final = TaskRunners()
"""The functions' task runners."""
