"""Checks random disruptions by the thousand: `python -m tests.property.naive_disruption.fuzz --cases 20000`.

Exit code 1 if any plan breaks a rule; each failing world is printed with its seed, which gives the world again.
`--shrink SEED` prints, as a snapshot in JSON, the smallest world that still fails as the seed's does.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Sequence
from multiprocessing import Pool
from typing import Final

from core.disruption import disrupt, expired
from core.model.snapshot import Snapshot
from installation.array_threads import ARRAY_THREADS
from tests.property.naive.clusters import shuffled
from tests.property.naive.fuzz import print_smallest
from tests.property.naive_disruption.judge import expiry_violations, violations
from tests.property.naive_disruption.worlds import SHARES, random_world, under_both_policies

METHODS: Final = ("emptiness", "drift", "static-drift", "single", "multi", "repack", "repair", "expiry")
_CHUNK = 20
_EVERY = 500


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def wrong(snapshot: Snapshot) -> list[str]:
    """The faults of both policies' plans for a world."""
    faults = expiry_violations(snapshot, expired(snapshot))
    for world in under_both_policies(snapshot):
        faults += violations(world, disrupt(world))
    return faults


def check(seed: int, shares: Sequence[float] = SHARES) -> tuple[int, list[str], tuple[str, ...]]:
    """The seed, the faults of both policies' plans for its world, and which methods found something."""
    try:
        return _checked(seed, shares)
    except Exception as error:  # noqa: BLE001 - whatever it is, the other worlds are to be checked too
        frame = traceback.extract_tb(error.__traceback__)[-1]
        return seed, [f"crash: {type(error).__name__} in {frame.name} of {frame.filename}: {error}"], ()


def _checked(seed: int, shares: Sequence[float]) -> tuple[int, list[str], tuple[str, ...]]:
    snapshot = random_world(seed, shares)
    ended = expired(snapshot)
    faults, used = expiry_violations(snapshot, ended), {"expiry"} if ended else set()
    for world in under_both_policies(snapshot):
        plan = disrupt(world)
        faults += violations(world, plan)
        if seed % 4 == 0 and disrupt(shuffled(world, seed)) != plan:
            faults.append("order: the plan depends on the order of the input")
        used |= {command.method for command in plan.commands}
    return seed, faults, tuple(sorted(used))


def run(seeds: Iterable[int], processes: int) -> int:
    """Check the seeds and print the faults; returns the number of failing worlds."""
    seeds = list(seeds)
    started = time.monotonic()
    kinds: Counter[str] = Counter()
    methods: Counter[str] = Counter()
    failing = done = 0
    with Pool(processes) as pool:
        for seed, faults, used in pool.imap_unordered(check, seeds, chunksize=_CHUNK):
            done += 1
            methods.update(used)
            if faults:
                failing += 1
                kinds.update({problem.partition(":")[0] for problem in faults})
                _say(f"seed {seed}: {len(faults)} wrong, first: {faults[0][:400]}")
            if done % _EVERY == 0:
                _say(f"… {done} of {len(seeds)} in {time.monotonic() - started:.0f} s, {failing} failing")
    shares = ", ".join(f"{method} {100 * methods[method] // max(done, 1)} %" for method in METHODS)
    _say(f"{done} worlds, {failing} failing {dict(kinds)}, seeds {seeds[0]} to {seeds[-1]}, "
         f"{time.monotonic() - started:.0f} s; worlds with {shares}")  # fmt: skip
    return failing


def shrink(seed: int) -> int:
    """Print the smallest world that still fails as the seed's does; returns 1 if it fails at all."""
    return print_smallest(random_world(seed), wrong, f"seed {seed}")


def main() -> int:
    """Read the command line and run."""
    os.environ.update(ARRAY_THREADS)  # before numpy is loaded, as in the tests
    parser = argparse.ArgumentParser(description="Check disruptions of random worlds against the naive judge.")
    parser.add_argument("--cases", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1, help="the first seed; the others follow")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--shrink", type=int, metavar="SEED", help="make this one world small instead")
    args = parser.parse_args()
    if args.shrink is not None:
        return shrink(args.shrink)
    return 1 if run(range(args.seed, args.seed + args.cases), args.processes) else 0


if __name__ == "__main__":
    sys.exit(main())
