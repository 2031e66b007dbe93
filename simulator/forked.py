"""Runs each task in its own process, forked from this one: everything is loaded already, and memory is freed at the end.

A pipe carries the result. A process that dies, raises or takes too long loses its own result and no other's.
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
"""Objects that a child makes before it looks for cycles; Python's own choice is 700."""


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
    """Do the work for each task, this many at once; results come in no order.

    Args:
        tasks: The inputs of the work.
        work: Done in the child; what it returns is pickled.
        processes: How many at once.
        limit: How long one may take before it is killed.
    """
    context = multiprocessing.get_context("fork")
    waiting, running = deque(tasks), dict[Connection, _Child[Task]]()
    # What is loaded stays for good: children that never look it over share its pages.
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
    # A child soon ends with all its memory, and looking for cycles so often would cost it a fiftieth of its time.
    gc.set_threshold(COLLECT_AFTER)
    try:
        result: Result | Lost = work(task)
    except Exception:  # noqa: BLE001 - reported to the process that waits for the result
        result = Lost(traceback.format_exc())
    sender.send(result)
    sender.close()
