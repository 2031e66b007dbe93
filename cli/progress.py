"""Shows progress on standard error for work that takes a while."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

QUIET_SECONDS: Final = 2.0
_TICK_SECONDS: Final = 0.5
_CLEAR_LINE: Final = "\r\x1b[K"


@contextmanager
def progress(what: str) -> Iterator[None]:
    """Show the activity and its duration once it takes over two seconds; only where standard error is a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    thread = threading.Thread(target=_show, args=(what, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _show(what: str, done: threading.Event) -> None:
    started = time.monotonic()
    if done.wait(QUIET_SECONDS):
        return
    while not done.wait(_TICK_SECONDS):
        sys.stderr.write(f"{_CLEAR_LINE}{what}: {time.monotonic() - started:.0f} s")
        sys.stderr.flush()
    sys.stderr.write(_CLEAR_LINE)
    sys.stderr.flush()
