"""`python -m benchmarks.operations cost|dashboards`."""

from __future__ import annotations

import argparse
import json
from typing import Final

from benchmarks.operations.bill import calculated, monthly, transitions
from benchmarks.operations.playing import cluster
from infra.packaging.dependencies import ROOT

BUILD: Final = ROOT / "build"
SIZES: Final = (0, 100, 1000)
CALCULATED: Final = 5000
"""Nodes of the cluster whose cost is calculated: playing it did not end in forty minutes."""


def main() -> None:
    """Write build/cost.json, or the two pictures in build/dashboards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("cost", "dashboards"))
    parser.add_argument(
        "--sizes", default=",".join(map(str, SIZES)), help="nodes of the clusters whose cost is measured"
    )
    parser.add_argument(
        "--calculated", type=int, default=CALCULATED, help="nodes of a cluster that is too large to play"
    )
    parser.add_argument("--part-nodes", type=int, default=2500, help="the setting partNodes")
    parser.add_argument("--distribute-from", type=int, default=0, help="the setting distributeFrom, 0: off")
    arguments = parser.parse_args()
    BUILD.mkdir(exist_ok=True)
    if arguments.what == "cost":
        sizes = [int(size) for size in arguments.sizes.split(",")]
        _cost(sizes, arguments.calculated, (arguments.part_nodes, arguments.distribute_from))
        return
    from benchmarks.operations.pictures import draw_all

    draw_all(BUILD / "dashboards")


def _cost(sizes: list[int], further: int, divided: tuple[int, int]) -> None:
    measured = {nodes: monthly(cluster(nodes)) for nodes in sizes}
    parts = {str(nodes) if nodes else "idle": part for nodes, part in measured.items()}
    if len(measured) > 1:
        parts[f"{further} (calculated)"] = calculated(further, measured)
    for name, nodes in zip(parts, (*sizes, further), strict=False):
        parts[name] = {**parts[name], "transitions": transitions(nodes, *divided)}
    sums = {name: round(sum(part.values()), 2) for name, part in parts.items()}
    (BUILD / "cost.json").write_text(json.dumps(parts, indent=1) + "\n")
    for name, part in parts.items():
        print(name, sums[name], *(f"{what}={dollars}" for what, dollars in part.items()))


if __name__ == "__main__":
    main()
