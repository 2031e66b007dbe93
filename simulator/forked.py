"""Runs each task in a process forked from this one: all modules are loaded, and the memory is freed at the end.

A pipe carries the result. If a process dies, raises or takes too long, only its own result is lost.
"""

from __future__ import annotations

import gc
import multiprocessing
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Final, Generic, TypeVar

import msgspec

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
    was_frozen = gc.get_freeze_count() > 0
    gc.collect()
    gc.freeze()
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
            gc.unfreeze()


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
