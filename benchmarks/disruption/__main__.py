"""`python -m benchmarks.disruption`: fragmented clusters, our targets and Karpenter's own moves, as a table and as JSON."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.disruption.fragmented import FEW_PROTECTED, MANY_PROTECTED, fragmented
from benchmarks.disruption.measuring import WAYS, measured
from benchmarks.files import written
from benchmarks.measure import decoded
from benchmarks.workloads.ec2 import ec2_catalogue

PROTECTED: Final = {"few": FEW_PROTECTED, "many": MANY_PROTECTED}
_HEADINGS: Final = (
    "cluster", "$/h before", "bound", "way", "$/h after", "x bound", "x Karpenter", "moves", "x Karpenter", "most a pod",
    "waves", "first look s", "next look s", "whole way s",
)  # fmt: skip


def main() -> None:
    """Measure the requested cases."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.disruption", description=__doc__)
    parser.add_argument("--nodes", type=_numbers, default=[500], help="sizes, with commas between (default: 500)")
    parser.add_argument("--seeds", type=_numbers, default=[11, 12, 13], help="(default: 11,12,13)")
    parser.add_argument("--protected", choices=tuple(PROTECTED), default="few", help="pods that may not be disrupted")
    parser.add_argument("--ways", default=",".join(WAYS), help="(default: %(default)s)")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="public data (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=Path("build/bench-disruption"), help="for files")
    parser.add_argument("--json", type=Path, default=Path("build/bench-disruption.json"), help="the result")
    arguments = parser.parse_args()
    results: list[dict[str, Any]] = []
    for nodes in arguments.nodes:
        for seed in arguments.seeds:
            name = f"{nodes}-{seed}-{arguments.protected}"
            workload = fragmented(nodes, seed, ec2_catalogue(arguments.data), protected=PROTECTED[arguments.protected])
            snapshot = decoded(written(workload, arguments.work / name))
            found = {"cluster": name, **measured(snapshot, tuple(arguments.ways.split(",")))}
            results.append(found)
            print("\n".join(_rows(found)), flush=True)
            document = {"load": os.getloadavg()[0], "cpus": os.cpu_count(), "clusters": results}
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(document, indent=1))
    print(table(results))


def table(results: Sequence[dict[str, Any]]) -> str:
    """A Markdown table."""
    head = ["| " + " | ".join(_HEADINGS) + " |", "| " + " | ".join("---" for _ in _HEADINGS) + " |"]
    return "\n".join([*head, *(row for found in results for row in _rows(found))])


def _rows(found: dict[str, Any]) -> Iterator[str]:
    for way, one in found["ways"].items():
        peer = found["ways"].get("karpenter-strict" if way == "strict" else "karpenter")
        cells = [found["cluster"], f"{found['before']:.2f}", f"{found['bound']:.2f}", way, f"{one['after']:.2f}"]
        cells += [f"{one['ofBound']:.3f}", _ratio(one, peer, "after"), str(one["moves"]), _ratio(one, peer, "moves")]
        cells += [str(one["mostMovesOfAPod"]), str(one["waves"])]
        cells += [f"{one[key]:.1f}" if key in one else "" for key in ("firstLookSeconds", "nextLookSeconds")]
        yield "| " + " | ".join([*cells, f"{one['wholeWaySeconds']:.1f}"]) + " |"


def _ratio(one: dict[str, Any], peer: dict[str, Any] | None, key: str) -> str:
    return f"{one[key] / peer[key]:.3f}" if peer and peer[key] else ""


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
