"""Simulates a recorded period twice at the same time: the second simulation has a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import traceback
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection
from queue import Full
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from cli.ledger.period_reader import PeriodReader
from cli.terminal.progress import progress
from core.counterfactual import fleet_simulation
from core.counterfactual.simulated_period import RecordedPeriod, SimulatedPeriod, SimulationRules
from core.errors import FleetwrightError, InvalidInputError
from core.ledger.form_reader import FormReader, SnapshotForm
from core.model.snapshot import Snapshot

PARALLEL_FROM: Final = 50
"""Fewer snapshots are simulated in one process: a second one takes a tenth of a second to start."""

QUEUED_MAX: Final = 16
"""How many snapshots one simulation may be ahead of the other; each has some megabytes."""

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
            return fleet_simulation.simulated_periods(steps.over(period), (first, second), period.until)
    # The process starts before the progress, which has a thread.
    with _SecondProcess(period, second) as other, progress("simulating twice", len(period)) as steps:
        shown = _snapshots(period, steps.over(other.sent(period.forms())))
        recorded, (before,) = fleet_simulation.simulated_periods(shown, (first,), period.until)
        return recorded, (before, other.result())


def _may_fork() -> bool:
    """Whether a second process helps, and may be a copy of this one: not on macOS, whose libraries have threads."""
    return sys.platform == "linux" and (os.cpu_count() or 1) > 1


def _snapshots(period: PeriodReader, forms: Iterable[SnapshotForm]) -> Iterator[Snapshot]:
    reader = FormReader()
    return (period.within(reader.read(form)) for form in forms)


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
    """A simulation in another process. This one reads the ledger and sends each snapshot as it is stored."""

    def __init__(self, period: PeriodReader, rules: SimulationRules) -> None:
        context = multiprocessing.get_context("fork")
        self._forms: Any = context.Queue(QUEUED_MAX)
        self._answer, theirs = context.Pipe(duplex=False)
        self._process = context.Process(
            target=_simulate, args=(period, rules, self._forms, theirs, self._answer), daemon=True
        )
        self._theirs = theirs

    def __enter__(self) -> Self:
        self._process.start()
        self._theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._forms.cancel_join_thread()
        self._process.terminate()
        self._process.join()

    def sent(self, forms: Iterable[SnapshotForm]) -> Iterator[SnapshotForm]:
        """Send the snapshots to the other process, and yield them. A catalogue is sent when it changes."""
        catalogue = None
        for form in forms:
            self._send(msgspec.structs.replace(form, catalogue=b"") if form.catalogue is catalogue else form)
            catalogue = form.catalogue
            yield form
        self._send(None)

    def result(self) -> SimulatedPeriod:
        """Wait for the result. Raises InvalidInputError or RuntimeError."""
        try:
            answer: SimulatedPeriod | _Problem = self._answer.recv()
        except EOFError as error:
            raise InvalidInputError("ended early", subject="the second simulation") from error
        if isinstance(answer, _Problem):
            raise answer.as_error()
        return answer

    def _send(self, form: SnapshotForm | None) -> None:
        while self._process.is_alive():
            try:
                self._forms.put(form, timeout=PATIENCE_SECONDS)
            except Full:
                continue
            return
        self.result()  # raises the other process' own problem


def _simulate(period: PeriodReader, rules: SimulationRules, forms: Any, answer: Connection, theirs: Connection) -> None:
    """Run in the second process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process ends this one
    theirs.close()
    try:
        received = _with_catalogues(iter(forms.get, None))
        _, (found,) = fleet_simulation.simulated_periods(
            _snapshots(period, received), (rules,), period.until, prices_recorded=False
        )
        answer.send(found)
    except FleetwrightError as error:
        answer.send(_Problem(str(error)))
    except Exception as error:  # noqa: BLE001 - the boundary of the process: the first one tells the user
        answer.send(_Problem(f"{type(error).__name__}: {error}", traceback.format_exc()))


def _with_catalogues(forms: Iterable[SnapshotForm]) -> Iterator[SnapshotForm]:
    catalogue = b""
    for form in forms:
        catalogue = form.catalogue or catalogue
        yield SnapshotForm(form.snapshot, catalogue)
