"""Runs a scenario from start to end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import msgspec

from simulator.aws.installation import read_region
from simulator.checkers.pods import Violation
from simulator.clock import VirtualClock
from simulator.draws import stream
from simulator.outcome import LedgerFolder, costs, judged, summarize, unschedulable_by_reason
from simulator.record import Event, Recorder
from simulator.scenario import Scenario, read_scenario, read_trace
from simulator.world import World, open_world

Progress = Callable[[datetime, datetime], None]
"""Called now and then with the progress of the run and its end, in virtual time."""

_TELL_EVERY: Final = timedelta(minutes=10)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run.

    Attributes:
        summary: The SimulationSummary of the command line's contract.
        events: The record.
        decisions: The functions' decisions, in order and without repeats: at, function, kind, subject, reason, message.
        violations: What the judges found.
        warnings: What in the scenario had no effect.
        failures: What handlers raised, with tracebacks.
    """

    summary: dict[str, Any]
    events: tuple[Event, ...]
    decisions: tuple[dict[str, Any], ...]
    violations: tuple[Violation, ...]
    warnings: tuple[str, ...]
    failures: tuple[str, ...]


def run(
    path: Path,
    *,
    seed: int | None = None,
    record: Path | None = None,
    ledger: Path | None = None,
    progress: Progress | None = None,
    beside: Callable[[World], object] | None = None,
) -> Result:
    """Run a scenario.

    Args:
        path: The scenario file.
        seed: Replaces the scenario's own seed.
        record: Where the record goes, one JSON object a line.
        ledger: The folder in which the functions' ledger is kept; None: they keep none.
        progress: Called from time to time with the run's progress.
        beside: Called with the world before its time begins, to put another program into it.

    Raises:
        InvalidInputError: If the scenario, or a file that it names, cannot be read.
    """
    scenario = read_scenario(path)
    region = read_region(scenario.catalogue_file)
    region = msgspec.structs.replace(region, vcpu_quotas={**region.vcpu_quotas, **scenario.vcpu_quotas})
    traced = [] if scenario.trace is None else read_trace(scenario.file(scenario.trace.file), scenario.trace)
    own_seed = scenario.seed if seed is None else seed
    began = time.perf_counter()
    clock = VirtualClock(scenario.start)
    recorder = Recorder(clock)
    events: list[Event] = []
    recorder.listen(events.append)
    with (
        _written(recorder, record),
        seeded(own_seed),
        open_world(scenario, region, own_seed, recorder, clock, keeps_ledger=ledger is not None) as world,
    ):
        if ledger is not None:
            world.account.wire.listen(LedgerFolder(ledger).see)
        recorder.emit("simulationStarted", scenario=scenario.name, seed=own_seed)
        if beside is not None:
            beside(world)
        world.play(traced)
        _run_to_end(world, scenario, progress)
        world.finish()
        recorder.emit("simulationEnded")
        return _result(world, events, time.perf_counter() - began)


def _run_to_end(world: World, scenario: Scenario, progress: Progress | None) -> None:
    end = scenario.start + scenario.duration
    moment = scenario.start
    while moment < end:
        moment = min(end, moment + _TELL_EVERY) if progress is not None else end
        world.clock.run_until(moment)
        if progress is not None:
            progress(moment, end)


def _result(world: World, events: list[Event], wall_seconds: float) -> Result:
    verdict = world.judges.finish()
    unschedulable = unschedulable_by_reason(world.summary.pending(), world.decisions.entries)
    figures = {
        **world.summary.figures(unschedulable),
        **costs(world.meter),
        **judged(verdict),
        "cpuSeconds": {name: round(seconds, 3) for name, seconds in sorted(world.sandboxes.cpu_seconds.items())},
        "peakMemoryMiB": dict(sorted(world.sandboxes.peak_memory_mib.items())),
        "decisions": len(world.decisions.entries),
    }
    seconds = round(world.scenario.duration.total_seconds())
    return Result(
        summary=summarize(world.scenario.name, seconds, wall_seconds, figures),
        events=tuple(events),
        decisions=tuple(world.decisions.entries),
        violations=verdict.violations,
        warnings=tuple(world.warnings),
        failures=tuple(world.sandboxes.failures),
    )


@contextmanager
def _written(recorder: Recorder, record: Path | None) -> Iterator[None]:
    if record is None:
        yield
        return
    with record.open("wb") as file:

        def write(event: Event) -> None:
            file.write(event.to_line() + b"\n")

        recorder.listen(write)
        yield


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Python's own generator follows the seed too: the SDK draws the length of its waits from it."""
    state = random.getstate()
    random.setstate(stream(seed, "process").getstate())
    try:
        yield
    finally:
        random.setstate(state)
