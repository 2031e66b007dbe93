"""What groups that start together cost, in processor time and dollars: `python -m benchmarks.groups`.

200 groups of 8 among 5,000 pods are planned with and without their annotations, in turn, so that both meet the same load of the
machine. It fails above a goal.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Final

import msgspec

from benchmarks.commit import commit
from benchmarks.files import written
from benchmarks.measure import decoded, with_steps
from benchmarks.workloads.diverse import diverse, diverse_pods
from benchmarks.workloads.manifests import ZONE, PodShape, Workload, node_pool, numbered
from core import labels
from core.api.objects import JsonObject
from core.interpreter import collector_paused
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.scheduling import Planner
from core.scheduling.context import SchedulingContext

GROUPS: Final = 200
MEMBERS: Final = 8
PODS: Final = 5_000
REPEATS: Final = 7

RATIO_MAX: Final = 1.3
"""Of the medians of processor time, with groups and without."""

EXCESS_MAX: Final = 0.01
"""Of the plan with groups, above the plan without them. Both have the same proven bound, that of the latter."""

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
    parser.add_argument("--json", type=Path, default=Path("build/groups.json"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        grouped = decoded(written(workload(), Path(folder)))
    plans = {name: _compared(name, grouped, arguments.repeats) for name in PLANS}
    document = {"commit": commit(), "plans": plans}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return int(any(plan["ratio"] > RATIO_MAX or plan["excess"] > EXCESS_MAX for plan in plans.values()))


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
    took = {variant: statistics.median(each) for variant, each in seconds.items()}
    grouped_cost, bound = plans["grouped"].cost.hourly, plans["single"].cost.lower_bound
    excess = grouped_cost / plans["single"].cost.hourly - 1
    above = "" if bound is None else f", {grouped_cost / bound - 1:.2%} above the bound"
    whole = sum(group.placed >= group.minimum for group in plans["grouped"].groups)
    ratio = took["grouped"] / took["single"]
    print(
        f"{name:8} {took['grouped']:.3f} s with groups, {took['single']:.3f} s without: {ratio:.2f} times ({RATIO_MAX});"
        f" {whole} of {GROUPS} groups; {excess:+.2%} dollars{above}"
    )
    return {**took, "ratio": ratio, "excess": excess, "whole": whole}


if __name__ == "__main__":
    sys.exit(main())
