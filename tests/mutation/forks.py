"""Runs tests on a mutant in forked processes, which inherit the parent's imports."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

import msgspec

SURVIVED: Final = 0
KILLED: Final = 1
NOT_APPLIED: Final = 3
_BROKEN: Final = 70
_READ: Final = 65_536
_TAIL: Final = 400

_PROCESSES: Final = Path("/proc")
IDLE_SECONDS: Final = 12
"""A child whose processes all sleep this long hangs because of its mutant: tests do not sleep."""


class Ended(msgspec.Struct, frozen=True):
    """How a child ended: one of the statuses above or minus a signal, and what it said."""

    status: int
    said: str
    seconds: float


def forked(body: Callable[[Callable[[str], None]], int], seconds_max: float, idle_max: float = IDLE_SECONDS) -> Ended:
    """Run `body` in a child; it returns the status, and may send text through its parameter.

    The child is killed when its time is over, or once it has slept for `idle_max` seconds.
    """
    began = time.monotonic()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _be_child(body, write)
    os.close(write)
    said, status = _heard(read, child, began + seconds_max, idle_max)
    os.close(read)
    return Ended(status, said.decode(errors="replace"), time.monotonic() - began)


def sound(ended: Ended) -> Ended:
    """The same, if the child ended in a way that says something about a mutant.

    Raises:
        RuntimeError: If what runs the tests raised: that is a defect of this tool, and kills nothing.
    """
    if ended.status == _BROKEN:
        raise RuntimeError(f"a child that plays mutants is broken: {ended.said[-_TAIL:]}")
    return ended


def in_hands(processes: int, body: Callable[[int], None]) -> None:
    """Call `body` with the numbers below `processes`, each in a child of its own, and wait for all."""
    hands = []
    for number in range(processes):
        hand = os.fork()
        if hand == 0:
            try:
                body(number)
            except BaseException:  # noqa: BLE001 - the child ends here, and says why
                sys.stderr.write(traceback.format_exc())
            finally:
                os._exit(0)
        hands.append(hand)
    for hand in hands:
        os.waitpid(hand, 0)


def allow(seconds: float) -> None:
    """End this process by a signal once it has used so much more processor time."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_PROF, seconds)


def _be_child(body: Callable[[Callable[[str], None]], int], write: int) -> NoReturn:
    os.setsid()
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)

    def say(text: str) -> None:
        os.write(write, text.encode())

    status = _BROKEN
    try:
        status = body(say)
    except BaseException:  # noqa: BLE001 - the child ends here, and says why
        say(traceback.format_exc()[-_TAIL:])
    finally:
        os._exit(status)


def _ticks_of(group: int) -> int:
    """A number that changes while a process of the group computes or waits for a processor."""
    ticks = 0 if _PROCESSES.is_dir() else time.monotonic_ns()  # without a /proc nobody knows
    for stat in _PROCESSES.glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[2]) == group:
            ticks += sum(map(int, fields[11:15])) + (time.monotonic_ns() if fields[0] in "RD" else 0)
    return ticks


def _heard(read: int, child: int, end: float, idle_max: float) -> tuple[bytes, int]:
    """What the child said, and how it ended; it is killed with all that it started when its time is over."""
    said, idle, before = b"", 0, -1
    while time.monotonic() < end and idle < idle_max:
        if select.select([read], [], [], 1.0)[0]:
            chunk = os.read(read, _READ)
            if not chunk:
                break
            said += chunk
            continue
        used = _ticks_of(child)
        idle, before = idle + 1 if used == before else 0, used
    else:
        os.killpg(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it started, and left behind
    return said, status
