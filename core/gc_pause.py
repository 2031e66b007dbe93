"""Pauses Python's cyclic garbage collector while a cluster is read or planned."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the collector, and restore its state at the end, also after an error.

    Decoded objects and plans contain no cycles: reference counting frees them. Repeated collections over a hundred thousand
    pods would take two to four times as long as decoding them, and a tenth of planning. The collector belongs to the whole
    process, so the shell decides about it, not the core.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
