"""Simulates a recorded period twice at the same time: the second simulation has a process of its own.

The first process reads the ledger, and sends each object as it is stored: compressed, it has a hundredth of a snapshot's bytes.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from multiprocessing.connection import Connection
from queue import Full
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from cli.ledger.entries import LedgerStorage, PeriodReader
from cli.terminal.style import progress
from core.counterfactual import simulation
from core.counterfactual.simulation import RecordedPeriod, SimulatedPeriod, SimulationRules
from core.errors import FleetwrightError, InvalidInputError

PARALLEL_FROM: Final = 50
"""Fewer snapshots are simulated in one process: a second one takes a tenth of a second to start."""

QUEUED_MAX: Final = 16
"""How many stored objects one simulation may be ahead of the other; most have some kilobytes, some have megabytes."""

PATIENCE_SECONDS: Final = 1.0
"""How often the second process is checked while it is behind."""


def simulated_twice(
    period: PeriodReader, first: SimulationRules, second: SimulationRules
) -> tuple[RecordedPeriod, tuple[SimulatedPeriod, ...]]:
    """Simulate a period under two sets of rules.

    Raises:
        InvalidInputError: If a snapshot cannot be read, or the second process ends early.
        RuntimeError: If the second simulation has a bug.
    """
    if len(period) < PARALLEL_FROM or not _may_fork():
        with progress("simulating twice", len(period)) as steps:
            return simulation.simulated_periods(steps.over(period), (first, second), period.until)
    # The process starts before the progress, which has a thread.
    with _SecondProcess(period, second) as other, progress("simulating twice", len(period)) as steps:
        shown = steps.over(period.read_from(other.shared(period.place)))
        recorded, (before,) = simulation.simulated_periods(shown, (first,), period.until)
        return recorded, (before, other.result())


def _may_fork() -> bool:
    """Whether a second process helps, and may be a copy of this one: not on macOS, whose libraries have threads."""
    return sys.platform == "linux" and (os.cpu_count() or 1) > 1


class _SharedLedger:
    """A ledger whose objects are sent to another process in the order in which they are read."""

    def __init__(self, place: LedgerStorage, send: Callable[[tuple[str, bytes]], None]) -> None:
        self._place = place
        self._send = send
        self.name = place.name

    def keys(self, prefix: str) -> list[str]:
        """Return every name with this prefix, in order."""
        return self._place.keys(prefix)

    def get(self, key: str) -> bytes:
        """Return one object. Raises InvalidInputError if there is none."""
        content = self._place.get(key)
        self._send((key, content))
        return content

    def get_all(self, keys: Iterable[str]) -> Iterator[bytes]:
        """Return several objects, in order."""
        keys = list(keys)
        for key, content in zip(keys, self._place.get_all(keys), strict=True):
            self._send((key, content))
            yield content


class _ReceivedLedger:
    """The same ledger in the other process, which reads the same objects in the same order."""

    def __init__(self, name: str, receive: Callable[[], tuple[str, bytes]]) -> None:
        self._receive = receive
        self.name = name

    def keys(self, prefix: str) -> list[str]:  # noqa: ARG002 - of the protocol
        """Return nothing: the period has its keys."""
        return []

    def get(self, key: str) -> bytes:
        """Return the next object, which is this one. Raises InvalidInputError if it is another one."""
        sent, content = self._receive()
        if sent != key:
            raise InvalidInputError(f"was expected, not {sent}", subject=key)
        return content

    def get_all(self, keys: Iterable[str]) -> Iterator[bytes]:
        """Return several objects, in order."""
        return map(self.get, keys)


class _Problem(msgspec.Struct, frozen=True):
    """What ended the second simulation; not the exception itself, which may not be sendable.

    Attributes:
        traced: Its traceback if it is a bug; empty for an invalid input.
    """

    text: str
    traced: str = ""

    def as_error(self) -> Exception:
        """Return what the first process raises."""
        if not self.traced:
            return InvalidInputError(self.text)
        error = RuntimeError(f"the second simulation: {self.text}")
        error.add_note(self.traced)
        return error


class _SecondProcess:
    """A simulation in another process. This one reads the ledger."""

    def __init__(self, period: PeriodReader, rules: SimulationRules) -> None:
        context = multiprocessing.get_context("fork")
        self._objects: Any = context.Queue(QUEUED_MAX)
        self._answer, theirs = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_simulate, args=(period, rules, self._objects, theirs, self._answer), daemon=True
        )
        self._theirs = theirs

    def __enter__(self) -> Self:
        self._process.start()
        self._theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._objects.cancel_join_thread()
        self._process.terminate()
        self._process.join()

    def shared(self, place: LedgerStorage) -> LedgerStorage:
        """Return the ledger; what is read of it is sent to the other process."""
        return _SharedLedger(place, self._send)

    def result(self) -> SimulatedPeriod:
        """Wait for the result. Raises InvalidInputError or RuntimeError."""
        try:
            answer: SimulatedPeriod | _Problem = self._answer.recv()
        except EOFError as error:
            raise InvalidInputError("ended early", subject="the second simulation") from error
        if isinstance(answer, _Problem):
            raise answer.as_error()
        return answer

    def _send(self, stored: tuple[str, bytes]) -> None:
        while self._process.is_alive():
            try:
                self._objects.put(stored, timeout=PATIENCE_SECONDS)
            except Full:
                continue
            return
        self.result()  # raises the other process' own problem


def _simulate(
    period: PeriodReader, rules: SimulationRules, objects: Any, answer: Connection, theirs: Connection
) -> None:
    """Run in the second process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    theirs.close()
    try:
        received = period.read_from(_ReceivedLedger(period.place.name, objects.get))
        _, (period_result,) = simulation.simulated_periods(received, (rules,), period.until, prices_recorded=False)
        answer.send(period_result)
    except FleetwrightError as error:
        answer.send(_Problem(str(error)))
    except Exception as error:  # noqa: BLE001 - the boundary of the process: the first one tells the user
        answer.send(_Problem(f"{type(error).__name__}: {error}", traceback.format_exc()))
