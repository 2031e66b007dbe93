"""`python -m tests.e2e.peer`: both sides with each size, in turn; a table, and build/e2e-peer.json."""

from __future__ import annotations

import argparse
import itertools
import os
import shutil
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import msgspec

from adapters.ports import PortError
from simulator.aws.installation import builtin_region
from tests.e2e.cloud.server import ZONES, in_zones
from tests.e2e.parts import builds
from tests.e2e.parts.processes import PartError
from tests.e2e.peer import objects
from tests.e2e.peer.figures import Result, to_json
from tests.e2e.peer.fleetwright_side import FleetwrightSide
from tests.e2e.peer.karpenter_side import KarpenterSide, Side
from tests.e2e.peer.measure import Limits, measure
from tests.e2e.peer.objects import Prices
from tests.e2e.peer.page import table

BUILD: Final = Path(__file__).parents[3] / "build"
LACKING: Final = 2

SIDES: Final[dict[str, Callable[[Path], AbstractContextManager[Side]]]] = {
    "fleetwright": FleetwrightSide,
    "karpenter": KarpenterSide,
}


def main() -> int:
    """Exit code 2: a tool is missing; 1: a part did not come up, or a side left pods waiting."""
    arguments = _arguments()
    if lacking := builds.missing():
        print("Karpenter and the real parts cannot be had here:", *lacking, sep="\n  ", file=sys.stderr)
        return LACKING
    limits = Limits(settled=arguments.settle, quiet=arguments.quiet)
    prices = Prices(in_zones(builtin_region(), ZONES).types)
    results = _kept(arguments.out) if arguments.add else []
    try:
        if KarpenterSide.name in arguments.sides:
            builds.karpenter()
        # Sides take turns, so that what slows the machine down for a while slows both.
        for pods, _, name in itertools.product(arguments.sizes, range(arguments.runs), arguments.sides):
            taken = _play(name, pods, prices, limits)
            results = sorted([*results, taken], key=lambda one: (one.pods, one.side, one.taken_at))
            arguments.out.parent.mkdir(parents=True, exist_ok=True)
            arguments.out.write_bytes(to_json(results, _conditions(limits)))
            print(table([taken]), *taken.failures, sep="\n", flush=True)
    except (PartError, PortError, TimeoutError) as error:
        print(error, file=sys.stderr)
        return 1
    print(table(results))
    return 1 if any(_left_waiting(one) for one in results) else 0


def _play(name: str, pods: int, prices: Prices, limits: Limits) -> Result:
    """A control plane of its own for each, so nothing of the one before is left."""
    folder = BUILD / "e2e-peer" / f"{os.getpid()}-{name}-{pods}"
    shutil.rmtree(folder, ignore_errors=True)
    with SIDES[name](folder) as side:
        return measure(side, pods, prices, limits)


def _left_waiting(result: Result) -> bool:
    return any(phase is None or phase.waiting for phase in (result.burst, result.halved))


def _conditions(limits: Limits) -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "karpenter": builds.KARPENTER_PACKAGE,
        "bootSeconds": objects.BOOT.total_seconds(),
        "consolidateAfter": objects.CONSOLIDATE_AFTER,
        "quietSeconds": limits.quiet,
        "settleSeconds": limits.settled,
    }


def _kept(path: Path) -> list[Result]:
    if not path.exists():
        return []
    return msgspec.convert(msgspec.json.decode(path.read_bytes())["results"], list[Result])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.e2e.peer", description=__doc__)
    parser.add_argument(
        "--sizes", type=_sizes, default=tuple(objects.DEPLOYMENTS), help="numbers of pods: 300,1000,3000"
    )
    parser.add_argument("--sides", type=_names, default=tuple(SIDES), help="fleetwright,karpenter")
    parser.add_argument(
        "--settle", type=float, default=Limits().settled, help="seconds to wait at most after half is gone"
    )
    parser.add_argument("--quiet", type=float, default=Limits().quiet, help="seconds without a change that are settled")
    parser.add_argument("--runs", type=int, default=1, help="how often each side plays each size; medians are compared")
    parser.add_argument("--add", action="store_true", help="keep the runs that the report has")
    parser.add_argument("--out", type=Path, default=BUILD / "e2e-peer.json")
    return parser.parse_args()


def _sizes(text: str) -> tuple[int, ...]:
    sizes = tuple(int(one) for one in text.split(","))
    if unknown := set(sizes) - objects.DEPLOYMENTS.keys():
        raise argparse.ArgumentTypeError(f"{sorted(unknown)} not among {list(objects.DEPLOYMENTS)}")
    return sizes


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - SIDES.keys():
        raise argparse.ArgumentTypeError(f"{sorted(unknown)} not among {list(SIDES)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
