"""Two processes give the same answer as one, and report the problems of the second one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest

from cli.ledger import parallel_simulation
from cli.ledger.entries import PeriodReader
from cli.ledger.parallel_simulation import simulated_twice
from core.counterfactual import simulation
from core.counterfactual.simulation import SimulationRules
from core.errors import InvalidInputError
from core.model.snapshot import Snapshot
from tests.builders import NOW
from tests.unit.cli.ledger.stored import MemoryLedger, asked
from tests.unit.cli.ledger.test_entries import disrupted

KEPT = SimulationRules(consolidates=False)


@pytest.fixture
def period() -> PeriodReader:
    """Some snapshots, of which more than one wait for the second process."""
    ledger = MemoryLedger()
    for minute in range(parallel_simulation.QUEUED_MAX * 2):
        ledger = disrupted(ledger, at=NOW + timedelta(minutes=minute), name=f"cccc{minute}")
    return PeriodReader(ledger, asked())


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel_simulation, "PARALLEL_FROM", 1)
    if not parallel_simulation._may_fork():
        pytest.skip("needs a second processor, and a system where a process may be copied")


@pytest.mark.parametrize(
    ("platform", "processors", "may"),
    [("linux", 2, True), ("linux", 1, False), ("linux", None, False), ("darwin", 8, False), ("win32", 8, False)],
)
def test_a_process_is_copied_on_linux_with_a_second_processor(
    platform: str, processors: int | None, may: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel_simulation.sys, "platform", platform)
    monkeypatch.setattr(parallel_simulation.os, "cpu_count", lambda: processors)
    assert parallel_simulation._may_fork() == may


@pytest.mark.usefixtures("apart")
def test_a_second_process_gives_the_same_answer(period: PeriodReader, monkeypatch: pytest.MonkeyPatch) -> None:
    found = simulated_twice(period, SimulationRules(), KEPT)
    monkeypatch.setattr(parallel_simulation, "_may_fork", lambda: False)
    assert found == simulated_twice(period, SimulationRules(), KEPT)
    assert found[0].snapshots == len(period)
    assert found[1][1].hours > 0


@pytest.mark.usefixtures("apart")
def test_a_problem_of_the_second_process_ends_the_first(period: PeriodReader) -> None:
    """It waited for ever for somebody to take its snapshots."""

    def refused(_: Snapshot) -> Snapshot:
        raise InvalidInputError("is odd", subject="NodePool a")

    with pytest.raises(InvalidInputError, match="NodePool a: is odd"):
        simulated_twice(period, SimulationRules(), SimulationRules(change=refused))


@pytest.mark.usefixtures("apart")
def test_a_bug_of_the_second_process_is_told_with_its_type_and_traceback(period: PeriodReader) -> None:
    """It was "ended early", with the traceback of a process that nobody had asked for in the middle of the progress."""

    def fails(_: Snapshot) -> Snapshot:
        raise KeyError("odd")

    with pytest.raises(RuntimeError, match="the second simulation: KeyError: 'odd'") as found:
        simulated_twice(period, SimulationRules(), SimulationRules(change=fails))
    assert "in fails" in found.value.__notes__[0]


@pytest.mark.usefixtures("apart")
def test_a_second_process_that_dies_is_told(period: PeriodReader) -> None:
    def dies(_: Snapshot) -> Snapshot:
        raise SystemExit(9)

    with pytest.raises(InvalidInputError, match="the second simulation: ended early"):
        simulated_twice(period, SimulationRules(), SimulationRules(change=dies))


def test_few_snapshots_need_no_second_process(period: PeriodReader, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    def simulate(snapshots: Iterable[Snapshot], rules: Any, until: Any) -> Any:
        seen.extend((len(list(snapshots)), rules))
        return "period", ("one", "other")

    monkeypatch.setattr(simulation, "simulated_periods", simulate)
    assert simulated_twice(period, SimulationRules(), KEPT) == ("period", ("one", "other"))
    assert seen == [len(period), (SimulationRules(), KEPT)]


def test_another_object_than_the_next_one_is_refused() -> None:
    """Both processes read the same objects in the same order; with another one, a snapshot would be what nobody recorded."""
    received = parallel_simulation._ReceivedLedger("ledger", iter([("a", b"1"), ("b", b"2")]).__next__)
    assert received.get("a") == b"1"
    with pytest.raises(InvalidInputError, match="c: was expected, not b"):
        list(received.get_all(["c"]))


@pytest.mark.usefixtures("apart")
def test_a_second_process_that_is_behind_receives_every_object(
    period: PeriodReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An object for which there is no room is sent again."""
    monkeypatch.setattr(parallel_simulation, "QUEUED_MAX", 1)
    monkeypatch.setattr(parallel_simulation, "PATIENCE_SECONDS", 0.0001)
    _, (before, after) = simulated_twice(period, KEPT, KEPT)
    assert before == after
    assert after.hours > 0


@pytest.mark.usefixtures("apart")
def test_an_interruption_is_left_to_the_first_process(period: PeriodReader) -> None:
    """Ctrl-C reaches both; the second one would print a traceback of its own, and the first one "ended early"."""
    first = os.getpid()

    def interrupted(snapshot: Snapshot) -> Snapshot:
        if os.getpid() != first:
            os.kill(os.getpid(), signal.SIGINT)
        return snapshot

    _, (before, after) = simulated_twice(period, KEPT, SimulationRules(consolidates=False, change=interrupted))
    assert before == after
