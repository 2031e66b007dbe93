"""pytest in forked processes: what they all import is imported once, the project's own modules by each."""

from __future__ import annotations

import importlib
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Final

import msgspec
import pytest

PASSED: Final = 0
LATE: Final = -1
_LIBRARIES: Final = ("highspy", "moto", "msgspec", "numpy", "pydantic", "scipy.sparse", "yaml")
_OPTIONS: Final = (
    "-x",
    "-q",
    "-p",
    "no:cacheprovider",
    "-m",
    "not slow and not e2e",
    "--tb=line",
    "--no-header",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
_READ: Final = 65_536


class Ended(msgspec.Struct, frozen=True):
    """How a run ended: pytest's exit status or `LATE`, and the first test that failed."""

    status: int
    first: str
    seconds: float


class Forked:
    """Runs tests in the current folder."""

    def __init__(self) -> None:
        sys.dont_write_bytecode = True  # a fault and its mending may fall into one second: no stale bytecode
        for library in _LIBRARIES:
            try:
                importlib.import_module(library)
            except ImportError:
                continue

    def run(self, tests: Sequence[str], seconds: float) -> Ended:
        """Run these until the first fails or the time is over."""
        began = time.monotonic()
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            _play(tests, write)
        os.close(write)
        said, status = _heard(read, child, began + seconds)
        os.close(read)
        lines = said.decode(errors="replace").splitlines()
        failed = [line for line in lines if line.startswith(("FAILED", "ERROR"))] or ["; ".join(lines[-5:])]
        return Ended(status, failed[0], time.monotonic() - began)


def _play(tests: Sequence[str], write: int) -> None:
    """The child: never returns."""
    os.setsid()
    os.dup2(write, 1)
    os.dup2(write, 2)
    sys.stdout = sys.stderr = os.fdopen(
        1, "w", closefd=False
    )  # the parent's may write elsewhere: it may be under test itself
    status = int(pytest.ExitCode.INTERNAL_ERROR)
    try:
        status = int(pytest.main([*_OPTIONS, *tests]))
    except BaseException:  # noqa: BLE001 - the child ends here, and says why
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _heard(read: int, child: int, end: float) -> tuple[bytes, int]:
    """What the child said, and how it ended; it is killed with all that it started when its time is over."""
    said = b""
    while (left := end - time.monotonic()) > 0:
        if select.select([read], [], [], left)[0]:
            chunk = os.read(read, _READ)
            if not chunk:
                return said, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            said += chunk
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return said, LATE
