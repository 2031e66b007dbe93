"""Runs the tasks of one batch in parallel, since each mostly waits for the network, or in sequence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import timedelta
from functools import partial
from typing import Final

import msgspec

from adapters.runtime.struct_types import prepare_struct_types

WORKERS: Final = 10
"""Threads of one invocation: one for each message of a batch of the work queue.

Each uses little memory, and most of them wait.
"""

LAUNCHES: Final = 32
"""Parallel launches of one invocation: EC2 takes one to three seconds for each, 50 at once and 5 a second from then on
(`adapters.aws.dynamodb.request_pace`)."""

Task = Callable[[], None]
RunTasks = Callable[[Sequence[Task], timedelta], tuple[bool, ...]]
"""Runs tasks, none of which raises, for at most the given time; returns for each whether it has ended."""


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
