"""What groups that start together cost, and how long they wait: `python -m benchmarks.groups`.

200 groups of 8 among 5,000 pods are planned with and without their annotations, in turn, so that both meet the same load of the
machine. Then groups come to `--worlds` simulated worlds, one at a time; in half of the worlds a zone has too little capacity. A
group waits from its last member's creation until the last is bound. It fails above a goal.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Final

import msgspec
import yaml

from benchmarks.commit import commit
from benchmarks.files import written
from benchmarks.latency import pool as latency_pool
from benchmarks.measure import decoded, with_steps
from benchmarks.workloads.diverse import diverse, diverse_pods
from benchmarks.workloads.manifests import ZONE, PodShape, Workload, node_pool, numbered
from core import labels
from core.api.objects import JsonObject
from core.interpreter import collector_paused
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.model.values.quantity import dollars
from core.scheduling import Planner
from core.scheduling.context import SchedulingContext
from simulator.world import Result, run

GROUPS: Final = 200
MEMBERS: Final = 8
PODS: Final = 5_000
REPEATS: Final = 7

RATIO_MAX: Final = 1.3
"""Of the medians of processor time, with groups and without."""

EXCESS_MAX: Final = 0.01
"""Of the searched plan's cost, above the lower bound that it proves for every choice of zones for its groups."""

WORLDS: Final = 30
GROUPS_IN_WORLD: Final = 4
BOOT: Final = 40
"""Seconds from each instance's launch until its kubelet registers, in every world."""

WAIT_MAX: Final = BOOT + 30
"""Seconds: the goal for the 99th percentile of what a group waits."""

PLANS: Final = {"greedy": 0, "search": None}
"""Name of a plan → its bound on the search's steps; None for the default."""


def workload() -> Workload:
    """Pods of Karpenter's benchmark beside groups of equal pods. Half of the groups need one zone."""
    singles = numbered(diverse_pods(PODS - GROUPS * MEMBERS))
    return Workload([*singles, *_members()], [node_pool()], diverse(1, 400).catalogue)


def _members() -> Iterator[JsonObject]:
    draw = Random(1)  # noqa: S311 - pods are drawn, no secret
    for number in range(GROUPS):
        shape = PodShape(cpu=draw.choice((500, 1_000, 2_000, 4_000)), memory=draw.choice((512, 2_048, 8_192)))
        notes = {labels.GROUP: f"group-{number:03d}", labels.GROUP_MINIMUM: str(MEMBERS)}
        if number % 2:
            notes[labels.GROUP_TOPOLOGY] = ZONE
        for member in range(MEMBERS):
            pod = shape.manifest(f"group-{number:03d}-{member}")
            pod["metadata"]["annotations"] = notes
            yield pod


def without_groups(snapshot: Snapshot) -> Snapshot:
    """Return the same pods without their groups."""
    pods = (msgspec.structs.replace(pod, annotations={}) if pod.annotations else pod for pod in snapshot.pods)
    return msgspec.structs.replace(snapshot, pods=tuple(pods))


def main() -> int:
    """Print a line for each figure, and write them as JSON; returns 1 if a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--worlds", type=int, default=WORLDS)
    parser.add_argument("--json", type=Path, default=Path("build/groups.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        grouped = decoded(written(workload(), Path(folder)))
    plans = {name: _compared(name, grouped, arguments.repeats) for name in PLANS}
    waiting = _waits(arguments.worlds)
    document = {"commit": commit(), "plans": plans, "waits": waiting}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    is_slow = bool(waiting) and (waiting["p99"] > WAIT_MAX or waiting["halfBought"] > 0)
    return int(is_slow or any(plan["ratio"] > RATIO_MAX or plan["excess"] > EXCESS_MAX for plan in plans.values()))


def _compared(name: str, grouped: Snapshot, repeats: int) -> JsonObject:
    """Plan with and without groups in turn, each in a context of its own as a run does, and compare the medians."""
    variants = {"grouped": with_steps(grouped, PLANS[name]), "single": with_steps(without_groups(grouped), PLANS[name])}
    seconds: dict[str, list[float]] = {variant: [] for variant in variants}
    plans: dict[str, Plan] = {}
    for _ in range(repeats):
        for variant, snapshot in variants.items():
            began = time.process_time()
            with collector_paused():
                plans[variant] = Planner(snapshot, SchedulingContext(snapshot)).plan(lambda: 0.0)
            seconds[variant].append(time.process_time() - began)
    took = {variant: statistics.median(runs) for variant, runs in seconds.items()}
    cost = plans["grouped"].cost
    more = cost.hourly / plans["single"].cost.hourly - 1
    excess = cost.hourly / cost.lower_bound - 1 if cost.lower_bound else 0.0
    above = f", {excess:.2%} above their bound of ${dollars(cost.lower_bound):.2f}" if cost.lower_bound else ""
    complete = sum(group.placed >= group.minimum for group in plans["grouped"].groups)
    ratio = took["grouped"] / took["single"]
    print(
        f"{name:8} {took['grouped']:.3f} s with groups, {took['single']:.3f} s without: {ratio:.2f} times ({RATIO_MAX});"
        f" {complete} of {GROUPS} groups; {more:+.2%} dollars than without{above}"
    )
    return {**took, "ratio": ratio, "more": more, "excess": excess, "whole": complete}


# Groups in simulated worlds.


def _waits(worlds: int) -> JsonObject:
    """Play the worlds, and return percentiles of what their groups waited, and how many groups were left in parts."""
    seconds, half_bought, refusals = list[float](), 0, 0
    for seed in range(worlds):
        with tempfile.TemporaryDirectory() as folder:
            result = run(scenario(Path(folder), seed))
        waited, in_parts = group_waits(result)
        seconds += waited
        half_bought += in_parts + len(result.violations)
        refusals += sum(event.event == "launchRefused" for event in result.events)
    if not seconds:
        return {}
    ordered = sorted(seconds)
    p50, p99 = (ordered[(len(ordered) - 1) * share // 100] for share in (50, 99))
    print(
        f"{len(ordered)} groups of {MEMBERS} in {worlds} worlds wait {p50:.0f} s (median) and {p99:.0f} s (p99;"
        f" {WAIT_MAX}), at most {ordered[-1]:.0f}; a boot takes {BOOT};"
        f" {refusals} refusals of EC2; {half_bought} groups bought in part"
    )
    return {"groups": len(ordered), "p50": p50, "p99": p99, "max": ordered[-1], "halfBought": half_bought}


def group_waits(result: Result) -> tuple[list[float], int]:
    """Return the seconds that each group waited, from its last member's creation, and how many did not start whole."""
    created: dict[str, list[datetime]] = {}
    bound: dict[str, list[datetime]] = {}
    for event in result.events:
        if event.event in ("podCreated", "podBound"):
            group = str(event.fields["pod"]).partition("/")[2].rpartition("-")[0].rpartition("-")[0]
            moments = created if event.event == "podCreated" else bound
            moments.setdefault(group, []).append(datetime.fromisoformat(event.t))
    complete = [group for group in created if len(bound.get(group, ())) >= MEMBERS]
    waited = [(max(bound[group]) - max(created[group])).total_seconds() for group in complete]
    return waited, len(created) - len(complete)


def scenario(folder: Path, seed: int) -> Path:
    """Write a seed's world: groups come at odd seconds, and each needs nodes of its own; half of them need one zone."""
    draw = Random(seed)  # noqa: S311 - a benchmark's draws
    steps: list[JsonObject] = []
    if seed % 2:
        steps.append({"at": "5m", "capacity": {"zone": "us-east-1a", "available": draw.randrange(4)}})
    for number in range(GROUPS_IN_WORLD):
        file = folder / f"group-{number}.yaml"
        file.write_text(yaml.safe_dump(_deployment(f"group{number}", in_one_zone=draw.random() < 0.5)))
        steps.append({"at": f"{600 + 300 * number + draw.randrange(60)}s", "apply": [file.name]})
    (folder / "pool.yaml").write_text(yaml.safe_dump_all(pool_of_small_nodes()))
    spec = {
        "start": "2026-11-20T00:00:00Z",
        "duration": f"{600 + 300 * GROUPS_IN_WORLD + 300}s",
        "seed": seed,
        "manifests": ["pool.yaml"],
        "aws": {"boot": {"p50": f"{BOOT}s", "p99": f"{BOOT}s"}},
        "steps": steps,
    }
    document = {"apiVersion": "fleetwright.dev/v1", "kind": "Scenario", "metadata": {"name": "groups"}, "spec": spec}
    path = folder / "scenario.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def pool_of_small_nodes() -> Sequence[JsonObject]:
    """A NodePool whose nodes hold one or two members, so that a group needs several."""
    node_class, pool = latency_pool()
    requirements = [
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
        {"key": "karpenter.k8s.aws/instance-category", "operator": "In", "values": ["c", "m", "r"]},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4", "8"]},
    ]
    pool["spec"]["template"]["spec"]["requirements"] = requirements
    return node_class, pool


def _deployment(name: str, *, in_one_zone: bool) -> JsonObject:
    notes = {labels.GROUP: name, labels.GROUP_MINIMUM: str(MEMBERS)}
    if in_one_zone:
        notes[labels.GROUP_TOPOLOGY] = ZONE
    container = {"name": "c", "image": "pause", "resources": {"requests": {"cpu": "3", "memory": "4Gi"}}}
    template = {"metadata": {"labels": {"app": name}, "annotations": notes}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": MEMBERS, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


if __name__ == "__main__":
    sys.exit(main())
