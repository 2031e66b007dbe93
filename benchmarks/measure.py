"""Plans one workload in its own process and prints the measured figures: `python -m benchmarks.measure FOLDER …`.

A process for each case keeps the peak memory and the first, cold plan separate from other cases.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.files import Files
from benchmarks.flexibility import flexibility
from benchmarks.workloads.manifests import NOW
from cli.commands import plan as plan_command
from cli.inputs import read_inputs
from cli.manifests.inventory import take_inventory
from cli.manifests.reading import read
from core.api.objects import JsonObject
from core.catalogue import document
from core.interpreter import TrackedObjects, collector_paused
from core.manifests.assemble import assemble
from core.manifests.wire import decoding, resources
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.model.values.quantity import dollars
from core.scheduling import Planner
from core.scheduling.context import SchedulingContext

_PAGES_AS_MANIFESTS_MAX: Final = 20
"""Larger workloads are not read as manifests: that takes longer than planning."""

_BUDGET_REPEATED_MAX: Final = 2.0
_REPEATING_SECONDS_MAX: Final = 10.0
"""No plan is repeated after this many seconds: the first plan already shows whether it exceeds its budget."""


def main() -> None:
    """Measure what the arguments request, and print the result as one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budgets", type=json.loads, default=[1.0], help="seconds, as a JSON list")
    parser.add_argument("--improved-repeats", type=int, default=1, help="under budgets of two seconds and less")
    parser.add_argument("--no-judge", action="store_true")
    arguments = parser.parse_args()
    repeats = Repeats(arguments.repeats, arguments.improved_repeats)
    figures = measured(Files(arguments.folder), repeats, arguments.budgets, is_judged=not arguments.no_judge)
    json.dump(figures, sys.stdout)


class Repeats(msgspec.Struct, frozen=True):
    """How often one plan is made; the median counts."""

    greedy: int = 5
    improved: int = 1

    def under(self, budget_seconds: float) -> int:
        """Return how often a plan is improved: once if that takes long."""
        return self.improved if budget_seconds <= _BUDGET_REPEATED_MAX else 1


def measured(files: Files, repeats: Repeats, budgets: list[float], *, is_judged: bool) -> JsonObject:
    """Return all figures of one workload, in seconds and dollars per hour."""
    started = time.perf_counter()
    snapshot = decoded(files)
    decode_seconds = time.perf_counter() - started
    greedy_world = with_steps(snapshot, 0)
    cold = _timed(greedy_world)
    warm = [_timed(greedy_world)]
    while len(warm) < repeats.greedy and sum(run.seconds for run in warm) < 2 * _REPEATING_SECONDS_MAX:
        warm.append(_timed(greedy_world))
    peak = peak_bytes()
    result: JsonObject = {
        "pods": len(SchedulingContext(snapshot).pending),
        "types": len(snapshot.catalogue.default),
        "nodes": len(snapshot.nodes),
        "decodeSeconds": decode_seconds,
        "coldSeconds": cold.seconds,
        "peakBytes": peak,
        "greedy": {
            **_times(warm),
            "prepareSeconds": statistics.median(run.prepare_seconds for run in warm),
            "solveSeconds": statistics.median(run.solve_seconds for run in warm),
            **_described(snapshot, cold.plan, is_judged=is_judged),
        },
        "improved": [],
    }
    for seconds in budgets:
        tried = [_timed(snapshot, clock(seconds))]
        while len(tried) < repeats.under(seconds) and sum(trial.seconds for trial in tried) < _REPEATING_SECONDS_MAX:
            tried.append(_timed(snapshot, clock(seconds)))
        tried.sort(key=lambda run: run.plan.cost.hourly)
        run = tried[len(tried) // 2]
        result["improved"].append(
            {
                "budgetSeconds": seconds,
                **_times(tried),
                "costs": [dollars(trial.plan.cost.hourly) for trial in tried],
                "peakBytes": peak_bytes(),
                **_described(snapshot, run.plan, is_judged=is_judged),
            }
        )
    if len(files.pages) <= _PAGES_AS_MANIFESTS_MAX:
        result["manifestsSeconds"] = _manifests_seconds(files)
    return result


def decoded(files: Files) -> Snapshot:
    """Return the snapshot, read as the functions read pages of the API server."""
    with collector_paused():
        objects = dict(take_inventory(read([str(files.cluster)])).objects)
        pods = [pod for page in files.pages for pod in decoding.decode_page(resources.PODS, page.read_bytes()).items]
        snapshot, problems = assemble(
            {**objects, resources.PODS: pods},
            now=datetime.fromisoformat(NOW),
            catalogue=document.decode(files.catalogue.read_bytes()),
        )
    TrackedObjects.freeze()
    broken = [str(problem) for problem in problems if not problem.is_warning]
    if broken:
        raise SystemExit("\n".join(broken))
    return snapshot


def _manifests_seconds(files: Files) -> float:
    """Return the seconds that the command line takes to read the same objects as manifests."""
    parser = argparse.ArgumentParser()
    plan_command.configure(parser)
    file_arguments = [part for path in files.manifests for part in ("-f", str(path))]
    arguments = parser.parse_args([*file_arguments, "--catalog", str(files.catalogue), "--now", NOW])
    with contextlib.redirect_stderr(io.StringIO()):
        return read_inputs(arguments).decode_seconds


def _times(runs: Sequence[_Run]) -> JsonObject:
    """Return medians over the runs of one plan, and the seconds of each run, in order."""
    return {
        "seconds": statistics.median(run.seconds for run in runs),
        "cpuSeconds": statistics.median(run.cpu_seconds for run in runs),
        "runs": sorted(run.seconds for run in runs),
    }


class _Run(msgspec.Struct, frozen=True):
    """One plan and its time. `seconds` includes preparing, solving, and the garbage collection deferred to the end."""

    plan: Plan
    seconds: float
    cpu_seconds: float
    prepare_seconds: float
    solve_seconds: float


def _timed(snapshot: Snapshot, out_of_time: Callable[[], float] | None = None) -> _Run:
    gc.collect()
    cpu, started = time.process_time(), time.perf_counter()
    with collector_paused():
        planner = Planner(snapshot, SchedulingContext(snapshot))
        ready = time.perf_counter()
        plan = planner.plan(out_of_time)
        solved = time.perf_counter()
    ended = time.perf_counter()
    return _Run(plan, ended - started, time.process_time() - cpu, ready - started, solved - ready)


def with_steps(snapshot: Snapshot, steps: int | None) -> Snapshot:
    """Return the snapshot with another bound on the search's steps; 0 for the greedy plan."""
    return msgspec.structs.replace(
        snapshot, options=msgspec.structs.replace(snapshot.options, improve_iterations=steps)
    )


def clock(seconds: float) -> Callable[[], float]:
    """Return a clock that starts at its first call, as that of the command line's `--time-budget` does."""
    asked_at: list[float] = []

    def share_over() -> float:
        asked_at.append(time.perf_counter())
        return (asked_at[-1] - asked_at[0]) / seconds

    return share_over


def _described(snapshot: Snapshot, plan: Plan, *, is_judged: bool) -> JsonObject:
    bound = plan.cost.lower_bound
    figures: JsonObject = {
        "claims": len(plan.claims),
        "bindings": len(plan.bindings),
        "unschedulable": len(plan.unschedulable),
        "cost": dollars(plan.cost.hourly),
        "lowerBound": None if bound is None else dollars(bound),
        "flexibility": flexibility(snapshot, plan),
    }
    if is_judged:
        from tests.property.naive.large_plans import large_plan_violations

        started = time.perf_counter()
        violations = large_plan_violations(snapshot, plan)
        figures["judged"] = {
            "violations": violations[:5],
            "count": len(violations),
            "seconds": time.perf_counter() - started,
        }
    return figures


def peak_bytes() -> int:
    """The peak memory of this process; unlike getrusage's figure, it does not begin with the parent's."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


if __name__ == "__main__":
    main()
