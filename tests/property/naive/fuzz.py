"""Checks random clusters by the thousand: `python -m tests.property.naive.fuzz --cases 20000 --seed 1 --processes 2`.

Exit code 1 if any plan breaks a rule; each failing case is printed with its seed, which gives the cluster again.
`--shrink SEED` prints, as a snapshot in JSON, the smallest cluster that still fails as the seed's does.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import Pool
from typing import Any

import msgspec

from core.codec import encode_plan, encode_snapshot
from core.model.plan import Plan
from core.model.snapshot import Snapshot
from core.scheduling import schedule
from installation.array_threads import ARRAY_THREADS
from tests.property.naive.clusters import shuffled
from tests.property.naive.extras import rich_cluster
from tests.property.naive.left_over import carried_out, violations
from tests.property.naive.reading import spreads_of
from tests.property.naive.tight import tight_cluster
from tests.property.naive.trivial import beaten

# Shrinks a failing cluster: drops objects that the failure does not need, first in halves, then one by one.


_LISTS = (
    "pods", "nodes", "node_claims", "node_pools", "daemon_sets", "volumes", "volume_claims", "storage_classes", "attachments",
    "marked_for_deletion", "namespaces", "overlays", "buffers", "services", "workload_selectors", "budgets",
)  # fmt: skip
_POOL_LISTS = ("requirements", "taints", "startup_taints")
_SPEC_LISTS = (
    "node_selector", "required_terms", "preferred_terms", "tolerations", "spreads", "affinity", "anti_affinity",
    "preferred_affinity", "preferred_anti_affinity", "host_ports", "volumes",
)  # fmt: skip


def shrunk(snapshot: Snapshot, fails: Callable[[Snapshot], bool]) -> Snapshot:
    """A smaller cluster that still fails. Every accepted step makes it smaller, so the loop ends."""
    progress = True
    while progress:
        progress = False
        for smaller in _steps(snapshot):
            if fails(smaller):
                snapshot, progress = smaller, True
                break
    return snapshot


def print_smallest(snapshot: Snapshot, wrong: Callable[[Snapshot], list[str]], name: str) -> int:
    """Print the smallest snapshot that breaks the same rule first, with its faults; return 1 if any rule is broken, else 0."""
    faults = wrong(snapshot)
    if not faults:
        sys.stdout.write(f"{name}: nothing is wrong\n")
        return 0
    rule = faults[0].partition(":")[0]
    small = shrunk(snapshot, lambda candidate: any(line.startswith(rule) for line in wrong(candidate)))
    sys.stdout.write("\n".join([*wrong(small), encode_snapshot(small).decode(), ""]))
    return 1


def _steps(snapshot: Snapshot) -> Iterator[Snapshot]:
    for name in _LISTS:
        for shorter in _shorter(getattr(snapshot, name)):
            yield _with(snapshot, **{name: shorter})
    for shorter in _shorter(snapshot.catalogue.default):
        yield _with(snapshot, catalogue=_with(snapshot.catalogue, default=shorter))
    for number, kind in enumerate(snapshot.catalogue.default):
        for shorter in _shorter(kind.offerings):
            types = _replaced(snapshot.catalogue.default, number, _with(kind, offerings=shorter))
            yield _with(snapshot, catalogue=_with(snapshot.catalogue, default=types))
    for number, pool in enumerate(snapshot.node_pools):
        for smaller in _plainer(pool, _POOL_LISTS, ("limits", "labels", "weight")):
            yield _with(snapshot, node_pools=_replaced(snapshot.node_pools, number, smaller))
    for spec in {id(pod.spec): pod.spec for pod in snapshot.pods}.values():
        for smaller in _plainer(spec, _SPEC_LISTS, ()):
            pods = tuple(_with(pod, spec=smaller) if pod.spec is spec else pod for pod in snapshot.pods)
            yield _with(snapshot, pods=pods)


def _plainer(item: Any, lists: tuple[str, ...], fields: tuple[str, ...]) -> Iterator[Any]:
    for name in lists:
        for shorter in _shorter(getattr(item, name)):
            yield _with(item, **{name: shorter})
    for name in fields:
        value = getattr(item, name)
        if value:
            yield _with(item, **{name: type(value)()})


def _shorter(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    half = len(items) // 2
    if half > 1:
        yield items[:half]
        yield items[half:]
    for number in range(len(items)):
        yield items[:number] + items[number + 1 :]


def _replaced(items: tuple[Any, ...], number: int, item: Any) -> tuple[Any, ...]:
    return (*items[:number], item, *items[number + 1 :])


def _with(item: Any, **changes: Any) -> Any:
    return msgspec.structs.replace(item, **changes)


Check = Callable[[int], tuple[int, list[str], int]]
_CHUNK = 20
_EVERY = 500
IMPROVE_STEPS = 20
"""Steps of the search for cheaper nodes, if improved plans are judged."""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def check(seed: int) -> tuple[int, list[str], int]:
    """The seed, the faults in the plan of its cluster, and how many pods were pending."""
    try:
        return _checked(seed)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other cases are to be checked too
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return seed, [f"crash: {type(error).__name__} in {frame.name} of {frame.filename}: {error}"], 0


def _checked(seed: int) -> tuple[int, list[str], int]:
    snapshot = rich_cluster(seed)
    plan = schedule(snapshot)
    faults = violations(snapshot, plan) + disturbed(snapshot, plan)
    if seed % 4 == 3:
        faults += [f"improved: {problem}" for problem in violations(snapshot, schedule(improving(snapshot)))]
    if seed % 4 == 0 and encode_plan(schedule(shuffled(snapshot, seed))) != encode_plan(plan):
        faults.append("order: the plan depends on the order of the input")
    if seed % 4 == 1:
        faults += unrest(snapshot)
    waiting = len(plan.bindings) + len(plan.unschedulable) + sum(len(claim.pods) for claim in plan.claims)
    return seed, faults, waiting


def check_tight(seed: int) -> tuple[int, list[str], int]:
    """As `check`, for the seed's tight cluster, whose plan must be at least as good as that of every trivial planner."""
    snapshot = improving(tight_cluster(seed))
    plan = schedule(snapshot)
    waiting = len(plan.bindings) + len(plan.unschedulable) + sum(len(claim.pods) for claim in plan.claims)
    return seed, beaten(snapshot, plan) + (violations(snapshot, plan) if seed % 10 == 0 else []), waiting


def improving(snapshot: Snapshot) -> Snapshot:
    """The same cluster with a short search for cheaper nodes."""
    return msgspec.structs.replace(
        snapshot, options=msgspec.structs.replace(snapshot.options, improve_iterations=IMPROVE_STEPS)
    )


def disturbed(snapshot: Snapshot, plan: Plan) -> list[str]:
    """Pods that have a place only with capacity buffers or only without them, and the faults of the plan without them."""
    if not snapshot.buffers:
        return []
    alone = msgspec.structs.replace(snapshot, buffers=())
    undisturbed = schedule(alone)
    changed = {pod.pod for pod in plan.unschedulable} ^ {pod.pod for pod in undisturbed.unschedulable}
    faults = [f"spare: buffers decide about the place of {pod}" for pod in sorted(changed)]
    return faults + [f"without buffers: {problem}" for problem in violations(alone, undisturbed)]


def unrest(snapshot: Snapshot) -> list[str]:
    """What a second plan launches although the first has been carried out.

    This is not checked if carrying out the plan frees capacity: limits charged a claim its largest type, minValues and leaving
    nodes no longer restrict it, or a spread no longer considers every domain that an open claim could have joined.
    """
    plan = schedule(snapshot)
    joined = {node.name for node in snapshot.nodes}
    pools = snapshot.node_pools
    binds = bool(snapshot.vcpu_quotas) or any(
        pool.limits or any(r.min_values for r in pool.requirements) for pool in pools
    )
    goes = any(item.deleted_at is not None for item in (*snapshot.nodes, *snapshot.node_claims))
    if binds or goes or snapshot.marked_for_deletion or any(b.node not in joined for b in plan.bindings):
        return []
    again = schedule(carried_out(snapshot, plan))
    new = [(key, claim.name) for claim in again.claims for key in claim.pods]
    new += [(binding.pod, binding.node) for binding in again.bindings]
    spread = {pod.key for pod in snapshot.pods if spreads_of(snapshot, pod)}
    faults = [f"unrest: {key} finds {node} after all" for key, node in new if key not in spread]
    if any(claim.buffer_pods and not claim.pods for claim in again.claims):
        faults.append("unrest: a buffer wants another node although nothing has changed")
    return faults


def run(seeds: Iterable[int], processes: int, check: Check = check) -> int:
    """Check the seeds and print the faults; returns the number of failing cases."""
    seeds = list(seeds)
    started = time.monotonic()
    kinds: Counter[str] = Counter()
    pods = failing = done = 0
    with Pool(processes) as pool:
        for seed, faults, waiting in pool.imap_unordered(check, seeds, chunksize=_CHUNK):
            done, pods = done + 1, pods + waiting
            if faults:
                failing += 1
                kinds.update({problem.partition(":")[0] for problem in faults})
                _say(f"seed {seed}: {len(faults)} wrong, first: {faults[0][:300]}")
            if done % _EVERY == 0:
                _say(f"… {done} of {len(seeds)} in {time.monotonic() - started:.0f} s, {failing} failing")
    _say(
        f"{done} cases, {pods} pods, {failing} failing {dict(kinds)}, seeds {seeds[0]} to {seeds[-1]}, "
        f"{time.monotonic() - started:.0f} s"
    )
    return failing


def shrink(seed: int) -> int:
    """Print the smallest cluster that still fails as the seed's does; returns 1 if it fails at all."""
    snapshot = rich_cluster(seed)

    def wrong(candidate: Snapshot) -> list[str]:
        return violations(candidate, schedule(candidate)) or violations(candidate, schedule(improving(candidate)))

    return print_smallest(snapshot, wrong, f"seed {seed}")


def main() -> int:
    """Read the command line and run."""
    os.environ.update(ARRAY_THREADS)  # before numpy is loaded, as in the tests
    parser = argparse.ArgumentParser(description="Check random clusters against the naive judge.")
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; the others follow")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--tight", action="store_true", help="clusters of zonal rules, against trivial planners")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="make this one case small instead")
    args = parser.parse_args()
    if args.shrink is not None:
        return shrink(args.shrink)
    seeds = range(args.seed, args.seed + args.cases)
    return 1 if run(seeds, args.processes, check_tight if args.tight else check) else 0


if __name__ == "__main__":
    sys.exit(main())
