"""`python -m benchmarks.disruption.week`: a simulated week in which nodes may go on Sundays only, as figures and as a picture.

Workloads grow and shrink each day and leave nodes half empty; from Sunday 02:00 to 08:00 budgets let nodes go. All functions
run in the embedded world. The bound is what `consolidate` would prove at each hour.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from benchmarks.cluster_objects import NODE_CLASS, deployment
from benchmarks.disruption.week_picture import WeekHour, picture
from core.api.objects import JsonObject
from core.disruption.disruption_pass import DisruptionPass, fleet_price
from core.disruption.target.search import fleet_floor
from core.interpreter import collector_paused
from core.model.values.quantity import dollars
from simulator.aws.installation import read_region
from simulator.clock import VirtualClock
from simulator.record import Recorder
from simulator.scenario import read_scenario
from simulator.world import QUICK, World, open_world, seeded

DAYS: Final = 7
SAMPLED_EVERY: Final = timedelta(hours=1)
START: Final = "2026-11-16T00:00:00Z"
"""A Monday."""

CLOSED: Final = {"nodes": "0", "schedule": "0 8 * * sun", "duration": "162h"}
"""Budgets are closed from Sunday 08:00 to the next Sunday 02:00."""

SERVICES: Final = 14
DAILY_CHANGE: Final = (0.6, 1.5)
"""Factors on a service's number of pods, one of which is drawn each day; half of the day's pods run at night."""

CPUS: Final = ("250m", "500m", "900m", "1400m", "2200m")
MEMORY: Final = ("512Mi", "1Gi", "2Gi", "4Gi", "6Gi")


def main() -> None:
    """Play the week and write both files."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.disruption.week", description=__doc__)
    parser.add_argument("--json", type=Path, default=Path("build/week.json"), help="the figures (default: %(default)s)")
    parser.add_argument("--svg", type=Path, default=Path("build/week.svg"), help="the picture (default: %(default)s)")
    parser.add_argument("--days", type=int, default=DAYS, help="(default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = scenario(Path(folder), arguments.days, arguments.seed)
        samples = list(played(path))
    for target in (arguments.json, arguments.svg):
        target.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(samples)))
    arguments.svg.write_text(picture(samples, is_open))
    print(summary(samples))


def summary(samples: list[WeekHour]) -> str:
    """One line: dollars and nodes before and after the window, and evictions in and outside it."""
    windows = [sample for sample in samples if is_open(sample.hour)]
    inside = sum(sample.evictions for sample in windows)
    before = next((sample for sample in reversed(samples) if not windows or sample.hour < windows[0].hour), samples[0])
    after = windows[-1] if windows else samples[-1]
    outside = sum(sample.evictions for sample in samples) - inside
    return (
        f"{before.nodes} nodes for ${before.dollars:.2f}/h before the window, {after.nodes} for ${after.dollars:.2f}/h "
        f"at its end (bound ${after.bound:.2f}/h); {inside} evictions in it, {outside} in the rest of the week"
    )


def is_open(hour: int) -> bool:
    """Whether the hour that ends at that time lies in the window."""
    day, of_day = divmod(hour - 1, 24)
    return day % 7 == 6 and 2 <= of_day < 8


def played(path: Path) -> Iterator[WeekHour]:
    """Play the scenario, and return its state at each hour."""
    described = read_scenario(path)
    region, clock = read_region(described.catalogue_file), VirtualClock(described.start)
    with seeded(1), open_world(described, region, 1, Recorder(clock), clock, QUICK) as world:
        world.play([])
        evicted = 0
        for hour in range(1, described.duration // SAMPLED_EVERY + 1):
            clock.run_until(described.start + hour * SAMPLED_EVERY)
            so_far = world.summary.figures({})["evictions"]
            yield _sample(world, hour, so_far - evicted)
            evicted = so_far
        world.finish()


def _sample(world: World, hour: int, evictions: int) -> WeekHour:
    with collector_paused():
        snapshot = world.application().shared.observer.observe().snapshot
        bound = fleet_floor(DisruptionPass(snapshot))
        return WeekHour(hour, len(snapshot.nodes), dollars(fleet_price(snapshot)), dollars(bound), evictions)


def scenario(folder: Path, days: int, seed: int) -> Path:
    """Write the scenario into `folder` and return its path."""
    rng = Random(seed)  # noqa: S311 - repeatable
    sizes = {f"service-{number:02}": rng.randint(3, 14) for number in range(SERVICES)}
    objects = [NODE_CLASS, _NODE_POOL]
    objects += [
        deployment(name, count, cpu=rng.choice(CPUS), memory=rng.choice(MEMORY)) for name, count in sizes.items()
    ]
    steps = [step for day in range(days) for step in _day(day, sizes, rng)]
    spec = {"start": START, "duration": f"{days * 24}h", "seed": seed, "manifests": ["objects.yaml"], "steps": steps}
    document = {"apiVersion": "fleetwright.dev/v1", "kind": "Scenario", "metadata": {"name": "week"}, "spec": spec}
    (folder / "objects.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    path = folder / "scenario.yaml"
    path.write_text(json.dumps(document))
    return path


def _day(day: int, sizes: dict[str, int], rng: Random) -> Iterator[JsonObject]:
    """Yield the steps of a day: in the morning each service gets the day's pods, in the evening half of them."""
    for name, count in sorted(sizes.items()):
        today = max(1, round(count * rng.uniform(*DAILY_CHANGE)))
        for hour, replicas in ((7, today), (20, max(1, today // 2))):
            at = day * 1440 + hour * 60 + rng.randint(0, 59)
            yield {"at": f"{at}m", "scale": {"kind": "Deployment", "name": name, "replicas": replicas}}


_NODE_POOL: Final[JsonObject] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m7g", "c7g", "r7g"]},
                    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["9"]},
                ],
                "expireAfter": "Never",
            }
        },
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "5m",
            "budgets": [{"nodes": "20%"}, CLOSED],
        },
    },
}


if __name__ == "__main__":
    main()
