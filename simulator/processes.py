"""Processes of virtual time: threads of which only one runs at a time, so that work can wait in the middle of a call."""

from __future__ import annotations

import gc
import multiprocessing
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, TypeVar

import msgspec

from core.interpreter import TrackedObjects

# Runs each task in a process forked from this one: all modules are loaded, and the memory is freed at the end.
#
# A pipe carries the result. If a process dies, raises or takes too long, only its own result is lost.


Task = TypeVar("Task")
Result = TypeVar("Result")


COLLECT_AFTER: Final = 100_000
"""A child's threshold of garbage collection, in new objects; Python's default is 700."""


class Lost(msgspec.Struct, frozen=True):
    """A missing result. `why` has the cause, with a traceback if there is one."""

    why: str


class _Child(msgspec.Struct, Generic[Task]):
    task: Task
    process: BaseProcess
    ends_by: float


def each_forked(
    tasks: Iterable[Task], work: Callable[[Task], Result], *, processes: int, limit: timedelta
) -> Iterator[tuple[Task, Result | Lost]]:
    """Yield each task with the result of its work, in the order in which they end.

    Args:
        tasks: The inputs of the work.
        work: Called in the child; its result is pickled.
        processes: How many processes run at once.
        limit: After this time, a process is killed.
    """
    context = multiprocessing.get_context("fork")
    waiting, running = deque(tasks), dict[Connection, _Child[Task]]()
    # Frozen objects are skipped by the children's garbage collection, so their memory pages stay shared.
    was_frozen = TrackedObjects.is_frozen
    gc.collect()
    TrackedObjects.freeze()
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                receiver, sender = context.Pipe(duplex=False)
                task = waiting.popleft()
                process = context.Process(target=_do, args=(work, task, sender), daemon=True)
                process.start()
                sender.close()
                running[receiver] = _Child(task, process, time.monotonic() + limit.total_seconds())
            for receiver in _ready(running):
                child = running.pop(receiver)
                yield child.task, _result_of(child, receiver, limit)
    finally:
        for child in running.values():
            child.process.kill()
        if not was_frozen:
            TrackedObjects.unfreeze()


def _ready(running: dict[Connection, _Child[Task]]) -> list[Connection]:
    """Return the processes that have ended, sent a result or exceeded their time."""
    rest = min(child.ends_by for child in running.values()) - time.monotonic()
    wait(list(running), timeout=max(0.0, rest))
    now = time.monotonic()
    return [receiver for receiver, child in running.items() if receiver.poll() or child.ends_by <= now]


def _result_of(child: _Child[Any], receiver: Connection, limit: timedelta) -> Any:
    try:
        if receiver.poll():
            return receiver.recv()
        child.process.kill()
        return Lost(f"took longer than {limit}")
    except EOFError:
        child.process.join()
        return Lost(f"died with exit code {child.process.exitcode}")
    finally:
        receiver.close()
        child.process.join()


def _do(work: Callable[[Task], Result], task: Task, sender: Connection) -> None:
    # A child soon ends and frees its memory anyway; with the default threshold, collection takes a fiftieth of its time.
    gc.set_threshold(COLLECT_AFTER)
    try:
        result: Result | Lost = work(task)
    except Exception:  # noqa: BLE001 - reported to the process that waits for the result
        result = Lost(traceback.format_exc())
    sender.send(result)
    sender.close()


class AbandonedError(BaseException):
    """The simulation ended while this process was parked; it must unwind and touch nothing more."""


class Worker:
    """A thread that runs one process after the other: starting one for each took a fortieth of a run."""

    def __init__(self) -> None:
        # Plain locks, acquired at the start: Python's semaphore is ten times as slow, and a run takes thousands of turns.
        self.turn, self.yielded = threading.Lock(), threading.Lock()
        self.turn.acquire()
        self.yielded.acquire()
        self.work: Callable[[], None] | None = None
        """The work of the next turn; None ends the thread."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.turn.acquire()
            work, self.work = self.work, None
            if work is None:
                return
            work()
            del work
            self.yielded.release()


class Process:
    """A piece of work during which virtual time may pass. It runs in a thread, but never concurrently with another one.

    Args:
        idle: Idle threads. The process takes one, or starts a thread, and returns it at its end.
    """

    def __init__(self, work: Callable[[], None], idle: list[Worker]) -> None:
        self._work = work
        self._idle = idle
        self._worker: Worker
        self._failure: BaseException | None = None
        self._abandoned = False
        self._finished = False

    def start(self) -> None:
        """Run until it first waits or ends. Raises what the work raised."""
        self._worker = self._idle.pop() if self._idle else Worker()
        self._worker.work = self._run
        self._worker.turn.release()
        self._await_yield()

    def resume(self) -> None:
        """Continue after a wait, until the next wait or the end."""
        if not self._finished:
            self._worker.turn.release()
            self._await_yield()

    def abandon(self) -> None:
        """End the process: its current wait raises AbandonedError."""
        self._abandoned = True
        self.resume()

    def wait(self) -> None:
        """Return control to the clock; called by the process itself.

        Raises:
            AbandonedError: If the simulation is over.
        """
        if not self._abandoned:
            self._worker.yielded.release()
            self._worker.turn.acquire()
        if self._abandoned:
            raise AbandonedError

    def must_live(self) -> None:
        """Raise AbandonedError if the simulation is over."""
        if self._abandoned:
            raise AbandonedError

    def _await_yield(self) -> None:
        self._worker.yielded.acquire()
        if self._finished:
            self._idle.append(self._worker)
            if self._failure is not None:
                raise self._failure

    def _run(self) -> None:
        _own.process = self
        try:
            self._work()
        except AbandonedError:
            pass
        except BaseException as failure:  # noqa: BLE001 - raised in the thread that waits for this process
            self._failure = failure
        finally:
            self._finished = True


class _Own(threading.local):
    process: Process | None = None


_own = _Own()


def running_process() -> Process | None:
    """Return the process that runs in this thread, None outside of processes."""
    return _own.process
