"""Random clusters from manifests: `python -m tests.property.naive_manifests.fuzz --cases 2000 --difficulty calm`.

Each cluster is written as the objects that an API server lists, in one of many ways, read by the product, planned, and
judged against the original cluster. Exit code 1 if anything is wrong; the last line counts what was checked.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable
from multiprocessing import Pool
from random import Random
from typing import Final

from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.scheduling import schedule
from installation.array_threads import ARRAY_THREADS
from tests.property.naive.fuzz import improving
from tests.property.naive.left_over import violations
from tests.property.naive_manifests.clusters import CALM, HOSTILE, cluster
from tests.property.naive_manifests.judge import further_violations
from tests.property.naive_manifests.writing import read, written

_CHUNK: Final = 20
_RULES: Final = (
    "node_selector", "required_terms", "preferred_terms", "tolerations", "spreads", "affinity", "anti_affinity",
    "preferred_affinity", "preferred_anti_affinity", "host_ports", "volumes", "priority",
)  # fmt: skip


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def check(seed: int, difficulty: str) -> tuple[int, list[str], Counter[str]]:
    """The seed, the faults in the plan of its cluster as it was read, and counts of what was checked."""
    try:
        return _checked(seed, difficulty)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other cases are to be checked too
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return seed, [f"crash: {type(error).__name__} in {frame.name} of {frame.filename}: {error}"], Counter()


def _checked(seed: int, difficulty: str) -> tuple[int, list[str], Counter[str]]:
    truth = cluster(seed, difficulty)
    draw = Random(f"written {seed}")  # noqa: S311 - a test's dice
    objects = written(truth, draw, defaulted=bool(draw.getrandbits(1)))
    snapshot, problems = read(objects, truth, pages=bool(seed % 2))
    faults = [f"reading: {problem}" for problem in problems if "there is no EC2NodeClass" not in str(problem)]
    faults += _misread(truth, snapshot)
    plan = schedule(snapshot)
    faults += violations(truth, plan)
    faults += further_violations(truth, plan)
    if seed % 4 == 3:
        cheaper = schedule(improving(snapshot))
        faults += [f"improved: {problem}" for problem in violations(truth, cheaper)]
        is_whole = len(cheaper.unschedulable) == len(plan.unschedulable)
        if is_whole and sum(c.price for c in cheaper.claims) > sum(c.price for c in plan.claims):
            faults.append(f"improved: {sum(c.price for c in cheaper.claims)} costs more than the greedy plan")
    return seed, faults, _asked(truth, plan)


def _misread(truth: Snapshot, snapshot: Snapshot) -> list[str]:
    """Pods and NodePools that differ from the original after they were written and read."""
    faults = []
    read_pods = {pod.key: pod for pod in snapshot.pods}
    for pod in truth.pods:
        read_one = read_pods.get(pod.key)
        if read_one is None:
            faults.append(f"reading: {pod.key} is missing")
            continue
        wanted = {name: amount for name, amount in pod.spec.requests.items() if amount}
        got = {name: amount for name, amount in read_one.spec.requests.items() if amount}
        if wanted != got:
            faults.append(f"reading: {pod.key} needs {wanted}, is read as {got}")
        if (read_one.node_name, read_one.phase, read_one.is_gated, read_one.spec.priority) != (
            pod.node_name, pod.phase, pod.is_gated, pod.spec.priority
        ):  # fmt: skip
            faults.append(f"reading: {pod.key} is read as on {read_one.node_name}, {read_one.phase}")
    return faults + [f"reading: NodePool {pool.name}: {pool.problem}" for pool in snapshot.node_pools if pool.problem]


def _asked(truth: Snapshot, plan: Plan) -> Counter[str]:
    """Counts of pods by rule, and of their outcomes."""
    counts = Counter(pods=0, claims=len(plan.claims), onClaims=sum(len(claim.pods) for claim in plan.claims))
    counts["onNodes"] = len(plan.bindings)
    counts["impossible"] = len(plan.unschedulable)
    counts["pods"] = counts["onClaims"] + counts["onNodes"] + counts["impossible"]
    planned = {key for claim in plan.claims for key in claim.pods} | {binding.pod for binding in plan.bindings}
    planned |= {entry.pod for entry in plan.unschedulable}
    for pod in truth.pods:
        if pod.key in planned:
            counts.update(rule for rule in _RULES if getattr(pod.spec, rule))
    return counts


def run(seeds: Iterable[int], difficulty: str, processes: int) -> int:
    """Check the seeds and print the faults; returns the number of failing cases."""
    seeds = list(seeds)
    started, failing = time.monotonic(), 0
    kinds: Counter[str] = Counter()
    counts_of_all: Counter[str] = Counter()
    with Pool(processes) as pool:
        for seed, faults, counts in pool.starmap(check, [(seed, difficulty) for seed in seeds], chunksize=_CHUNK):
            counts_of_all.update(counts)
            if faults:
                failing += 1
                kinds.update({problem.partition(":")[0] for problem in faults})
                _say(f"seed {seed}: {len(faults)} wrong, first: {faults[0][:300]}")
    pods = max(counts_of_all["pods"], 1)
    rules = ", ".join(f"{rule} {100 * counts_of_all[rule] // pods} %" for rule in _RULES)
    pods_per_claim = counts_of_all["onClaims"] / max(counts_of_all["claims"], 1)
    _say(
        f"{difficulty}: {len(seeds)} clusters, {pods} pods ({100 * counts_of_all['impossible'] / pods:.1f} % impossible, "
        f"{100 * counts_of_all['onNodes'] // pods} % on nodes that were there, {pods_per_claim:.1f} a claim), "
        f"{failing} failing {dict(kinds)}, "
        f"seeds {seeds[0]} to {seeds[-1]}, {time.monotonic() - started:.0f} s; pods with {rules}"
    )
    return failing


def main() -> int:
    """Read the command line and run."""
    os.environ.update(ARRAY_THREADS)  # before numpy is loaded, as in the tests
    parser = argparse.ArgumentParser(description="Check random clusters that are read from manifests.")
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; the others follow")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--difficulty", choices=(CALM, HOSTILE), action="append", help="both where none is named")
    args = parser.parse_args()
    seeds = range(args.seed, args.seed + args.cases)
    return 1 if sum(run(seeds, difficulty, args.processes) for difficulty in args.difficulty or (CALM, HOSTILE)) else 0


if __name__ == "__main__":
    sys.exit(main())
