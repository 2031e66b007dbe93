"""Python's cyclic garbage collector at rest while a cluster is read or planned for."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the collector from running; it is as it was before once this ends, by an error too.

    What is read and what is planned hold no cycles: all of it goes as soon as nobody needs it, without the collector. To walk
    a hundred thousand pods again and again while objects pile up costs two to four times the decoding and a tenth of planning.
    The collector is the whole process's, so the shell decides about it and the core does not.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
