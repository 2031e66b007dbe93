"""Shows progress on standard error for work that takes a while."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

QUIET_SECONDS: Final = 2.0
_TICK_SECONDS: Final = 0.5
_CLEAR_LINE: Final = "\r\x1b[K"
_WRITES: Final = threading.Lock()


T = TypeVar("T")


class Steps:
    """Counts finished parts of work.

    Attributes:
        done: How many parts are done.
        total: The number of parts, 0 if unknown.
    """

    def __init__(self, total: int) -> None:
        self.done = 0
        self.total = total

    def over(self, parts: Iterable[T]) -> Iterator[T]:
        """Yield the parts; each counts as done when the next is requested."""
        for part in parts:
            yield part
            self.done += 1


@contextmanager
def progress(what: str, total: int = 0) -> Iterator[Steps]:
    """Show the activity, its progress and its duration once it takes over two seconds.

    Nothing is shown if standard error is not a terminal. The yielded object counts the parts.
    """
    steps = Steps(total)
    if not sys.stderr.isatty():
        yield steps
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(what, steps, done), daemon=True)
    thread.start()
    try:
        yield steps
    finally:
        done.set()
        thread.join()


@contextmanager
def progress_held() -> Iterator[None]:
    """Write no progress meanwhile: another program may ask on the terminal, and progress would clear its question."""
    with _WRITES:
        yield


def _show(what: str, steps: Steps, done: threading.Event) -> None:
    started = time.monotonic()
    if done.wait(QUIET_SECONDS):
        return
    while not done.wait(_TICK_SECONDS):
        count = f"{steps.done:,} of {steps.total:,}, " if steps.total else ""
        with _WRITES:
            sys.stderr.write(f"{_CLEAR_LINE}{what}: {count}{time.monotonic() - started:.0f} s")
            sys.stderr.flush()
    sys.stderr.write(_CLEAR_LINE)
    sys.stderr.flush()
