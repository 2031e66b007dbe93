"""`python -m benchmarks.operations cost|dashboards`."""

from __future__ import annotations

import argparse
import json
from typing import Final

from benchmarks.operations.bill import monthly
from benchmarks.operations.playing import cluster
from infra.packaging.dependencies import ROOT

BUILD: Final = ROOT / "build"
SIZES: Final = (0, 100, 1000)


def main() -> None:
    """Write build/cost.json and build/cost-parts.json, or the two pictures in build/dashboards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cost", "dashboards"))
    parser.add_argument(
        "--sizes", default=",".join(map(str, SIZES)), help="nodes of the clusters whose cost is measured"
    )
    arguments = parser.parse_args()
    BUILD.mkdir(exist_ok=True)
    if arguments.what == "cost":
        _cost([int(size) for size in arguments.sizes.split(",")])
        return
    from benchmarks.operations.pictures import draw_all

    draw_all(BUILD / "dashboards")


def _cost(sizes: list[int]) -> None:
    parts = {"idle" if nodes == 0 else str(nodes): monthly(cluster(nodes)) for nodes in sizes}
    sums = {name: round(sum(part.values()), 2) for name, part in parts.items()}
    (BUILD / "cost.json").write_text(json.dumps(sums, indent=1) + "\n")
    (BUILD / "cost-parts.json").write_text(json.dumps(parts, indent=1) + "\n")
    for name, part in parts.items():
        print(name, sums[name], *(f"{what}={dollars}" for what, dollars in part.items()))


if __name__ == "__main__":
    main()
