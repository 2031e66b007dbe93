"""How processor time grows with pods, nodes, NodePools and types: `python -m benchmarks.growth`.

Each row of sizes is planned twice: the greedy plan, and the plan with the whole search, which steps bound and no clock does.
The exponent is the slope of the line through the logarithms: 1 is linear. It fails above `EXPONENT_MAX`.

Each size has a process of its own, which ends after `POINT_SECONDS_MAX` of processor time. An axis ends with the first size
that is stopped, and what was measured until then is kept.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import matplotlib as mpl

from benchmarks.commit import commit
from benchmarks.files import written
from benchmarks.measure import decoded, with_steps
from benchmarks.workloads.clusters import existing
from benchmarks.workloads.diverse import diverse, diverse_pods
from benchmarks.workloads.ec2 import ec2_catalogue
from benchmarks.workloads.manifests import Workload, node_pool, numbered, requirement
from core.api.objects import JsonObject
from core.interpreter import collector_paused
from core.scheduling import Planner
from core.scheduling.context import SchedulingContext

EXPONENT_MAX: Final = 1.15
POINT_SECONDS_MAX: Final = 240
"""Processor seconds for all plans of one size."""

REPEATS: Final = 3
"""The fastest of several counts: others share the machine."""

REPEATED_SECONDS_MAX: Final = 5.0
"""No plan is repeated once its size has taken so long."""

TEAM: Final = "team"
STEPS: Final = {"greedy": 0, "search": None}
"""Name of a plan → its bound on the search's steps; None for the default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """What grows.

    Attributes:
        sizes, large: The usual sizes, and those that `--large` adds.
        make: Builds the workload of a size, given the folder with the public data.
        plans: The plans that are measured.
    """

    name: str
    sizes: Sequence[int]
    make: Callable[[int, Path], Workload]
    large: Sequence[int] = ()
    plans: Sequence[str] = tuple(STEPS)


def pools_of_teams(pools: int, pods: int = 2_000) -> Workload:
    """Pods that need their team's NodePool: so many pods of so many teams."""
    teams = [f"team-{number:03d}" for number in range(pools)]
    waiting = numbered(diverse_pods(pods))
    for number, pod in enumerate(waiting):
        pod["spec"]["nodeSelector"] = {TEAM: teams[number % pools]}
    cluster = [node_pool(requirement(TEAM, "In", team)) for team in teams]
    for team, pool in zip(teams, cluster, strict=True):
        pool["metadata"]["name"] = team
    return Workload(waiting, cluster, diverse(1, 400).catalogue)


AXES: Final = (
    Axis(
        name="pods",
        sizes=(2_500, 5_000, 10_000, 20_000),
        large=(50_000, 100_000, 200_000),
        make=lambda pods, _: diverse(pods, 400),
    ),
    Axis(
        name="nodes",
        sizes=(500, 1_000, 2_000, 4_000),
        large=(10_000, 20_000),
        make=lambda nodes, data: existing(nodes, 100, ec2_catalogue(data)),
    ),
    Axis(name="pools", sizes=(10, 20, 40, 80), large=(160,), make=lambda pools, _: pools_of_teams(pools)),
    Axis(name="types", sizes=(100, 200, 400, 800), large=(1_600,), make=lambda types, _: diverse(1_000, types)),
)


def main() -> int:
    """Print a line for each size and each exponent, and write JSON and SVG.

    Returns 1 if an exponent is too high or a size was stopped.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default=",".join(axis.name for axis in AXES))
    parser.add_argument("--large", action="store_true", help="larger sizes too: an hour")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with the public data")
    parser.add_argument("--json", type=Path, default=Path("build/growth.json"))
    parser.add_argument("--size", type=int, help="only this size, in this process")
    arguments = parser.parse_args()
    axes = [axis for axis in AXES if axis.name in arguments.only.split(",")]
    if arguments.size is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (POINT_SECONDS_MAX, POINT_SECONDS_MAX))
        rows = [row for axis in axes for row in _measured(axis, arguments.size, arguments.data)]
        return _written(arguments.json, rows, [])
    rows, stopped = [], []
    for axis in axes:
        for size in (*axis.sizes, *(axis.large if arguments.large else ())):
            of_size = _measured_apart(axis, size, arguments.data)
            rows += of_size
            stopped += [] if of_size else [f"{axis.name} {size}"]
            _written(arguments.json, rows, stopped)
            if not of_size:
                print(f"{axis.name:8}{size:>8} stopped after {POINT_SECONDS_MAX} s of processor time", flush=True)
                break
    if rows:
        draw(arguments.json.with_suffix(".svg"), rows)
    for series, value in _exponents(rows).items():
        print(f"{series:16} exponent {value:.2f}")
    return int(bool(stopped) or max(_exponents(rows).values(), default=0.0) > EXPONENT_MAX)


def _measured_apart(axis: Axis, size: int, data: Path) -> list[JsonObject]:
    """Measure the plans of one size in another process; none if it is stopped."""
    with tempfile.TemporaryDirectory() as folder:
        record = Path(folder, "size.json")
        point = ["--only", axis.name, "--size", str(size), "--data", str(data), "--json", str(record)]
        subprocess.run([sys.executable, "-m", "benchmarks.growth", *point], check=False)  # noqa: S603 - our own program
        return json.loads(record.read_bytes())["runs"] if record.exists() else []


def _written(path: Path, rows: Sequence[JsonObject], stopped: Sequence[str]) -> int:
    """Write what was measured so far, and return 0."""
    document = {
        "commit": commit(),
        "command": sys.argv[1:],
        "exponents": _exponents(rows),
        "stopped": stopped,
        "runs": rows,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _exponents(rows: Iterable[JsonObject]) -> dict[str, float]:
    return {f"{axis} {plan}": exponent(points) for (axis, plan), points in _series(rows).items()}


def _measured(axis: Axis, size: int, data: Path) -> list[JsonObject]:
    """Measure the plans of one size; each makes its context again, as a run does."""
    with tempfile.TemporaryDirectory() as folder:
        snapshot = decoded(written(axis.make(size, data), Path(folder)))
    rows: list[JsonObject] = []
    for plan in axis.plans:
        bounded, tried = with_steps(snapshot, STEPS[plan]), list[float]()
        while len(tried) < REPEATS and sum(tried) < REPEATED_SECONDS_MAX:
            began = time.process_time()
            with collector_paused():
                cost = Planner(bounded, SchedulingContext(bounded)).plan(lambda: 0.0).cost
            tried.append(time.process_time() - began)
        rows.append({"axis": axis.name, "size": size, "plan": plan, "seconds": min(tried), "cost": cost.hourly})
        print(f"{axis.name:8}{size:>8} {plan:8}{min(tried):8.3f} s  ${cost.hourly / 1e9:.3f}", flush=True)
    return rows


def _series(rows: Iterable[JsonObject]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Return size and seconds by axis and plan."""
    series: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for row in rows:
        series.setdefault((row["axis"], row["plan"]), []).append((row["size"], row["seconds"]))
    return series


def exponent(points: Sequence[tuple[int, float]]) -> float:
    """Return the slope of the least-squares line through the logarithms of sizes and seconds; 0 for a single point."""
    sizes, seconds = [math.log(size) for size, _ in points], [math.log(took) for _, took in points]
    middle, level = sum(sizes) / len(points), sum(seconds) / len(points)
    width = sum((size - middle) ** 2 for size in sizes)
    rise = sum((size - middle) * (took - level) for size, took in zip(sizes, seconds, strict=True))
    return rise / width if width else 0.0


def draw(path: Path, rows: Sequence[JsonObject]) -> None:
    """Draw seconds over sizes, both by their logarithms, one graph for each axis."""
    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "growth"
    from matplotlib import pyplot as plt

    names = list(dict.fromkeys(row["axis"] for row in rows))
    figure, places = plt.subplots(1, len(names), figsize=(4.0 * len(names), 3.4), squeeze=False)
    for name, place in zip(names, places.flat, strict=True):
        _draw_axis(place, name, {plan: points for (axis, plan), points in _series(rows).items() if axis == name})
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _draw_axis(place: Any, name: str, series: dict[str, list[tuple[int, float]]]) -> None:
    for plan, points in series.items():
        place.loglog(*zip(*points, strict=True), marker="o", label=f"{plan}: exponent {exponent(points):.2f}")
    place.set_xlabel(name)
    place.set_ylabel("processor seconds")
    place.grid(alpha=0.3, which="both")
    place.legend(fontsize=8)


if __name__ == "__main__":
    sys.exit(main())
