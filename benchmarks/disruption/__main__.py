"""`python -m benchmarks.disruption`: fragmented clusters, our targets and Karpenter's own moves, as a table and as JSON."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from pathlib import Path
from typing import Any, Final

from benchmarks.commit import commit
from benchmarks.disruption.fragmented import FEW_PROTECTED, MANY_PROTECTED, fragmented
from benchmarks.disruption.measuring import WAYS, measured
from benchmarks.disruption.page import figures
from benchmarks.files import Files, written
from benchmarks.measure import decoded
from benchmarks.peer import Peer, PeerError, built_peer, karpenter_version
from benchmarks.workloads.ec2 import ec2_catalogue

PROTECTED: Final = {"few": FEW_PROTECTED, "many": MANY_PROTECTED}


def main() -> None:
    """Measure the requested cases."""
    arguments = _arguments()
    peer, why_no_peer = built_peer(arguments.work, arguments.peer_memory, is_wanted=not arguments.no_peer)
    document: dict[str, Any] = {"commit": commit(), "cpus": os.cpu_count(), "peer": why_no_peer or karpenter_version()}
    document["command"] = shlex.join(("python", "-m", "benchmarks.disruption", *sys.argv[1:]))
    document["clusters"] = []
    for nodes in arguments.nodes:
        for seed in arguments.seeds:
            for protected in arguments.protected:
                document["clusters"].append(_cluster(nodes, seed, protected, arguments, peer))
                arguments.json.parent.mkdir(parents=True, exist_ok=True)
                arguments.json.write_text(json.dumps(document, indent=1))
    print(figures(document))


def _cluster(nodes: int, seed: int, protected: str, arguments: argparse.Namespace, peer: Peer | None) -> dict[str, Any]:
    name = f"{nodes}-{seed}-{protected}"
    workload = fragmented(nodes, seed, ec2_catalogue(arguments.data), protected=PROTECTED[protected])
    files = written(workload, arguments.work / name)
    figures = {
        "cluster": name,
        "load": os.getloadavg()[0],
        **measured(decoded(files), tuple(arguments.ways.split(","))),
    }
    print(f"{name}: ours done", file=sys.stderr, flush=True)
    if peer is not None and nodes <= arguments.peer_nodes:
        figures["karpenter"] = _karpenter(files, peer, arguments.peer_seconds)
    return figures


def _karpenter(files: Files, peer: Peer, cpu_seconds: int) -> dict[str, Any]:
    """Return Karpenter's results with the feature gate SpotToSpotConsolidation on (`open`) and off (`strict`)."""
    try:
        return {
            "open": peer.disruption(files, spot_to_spot=True, cpu_seconds=cpu_seconds),
            "strict": peer.disruption(files, spot_to_spot=False, cpu_seconds=cpu_seconds),
        }
    except PeerError as error:
        return {"failed": str(error)}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.disruption", description=__doc__)
    parser.add_argument("--nodes", type=_numbers, default=[500], help="sizes, with commas between (default: 500)")
    parser.add_argument("--seeds", type=_numbers, default=[11, 12, 13], help="(default: 11,12,13)")
    parser.add_argument(
        "--protected",
        type=lambda text: text.split(","),
        default=list(PROTECTED),
        help="pods that may not be disrupted: few, many or both with a comma between (default: both)",
    )
    parser.add_argument("--ways", default=",".join(WAYS), help="(default: %(default)s)")
    parser.add_argument("--no-peer", action="store_true", help="leave Karpenter out")
    parser.add_argument("--peer-nodes", type=int, default=500, help="largest cluster for Karpenter (default: 500)")
    parser.add_argument(
        "--peer-seconds", type=int, default=3600, help="CPU seconds after which its moves end (default: 3600)"
    )
    parser.add_argument("--peer-memory", type=Path, metavar="FILE", help="use Karpenter's answers that were kept here")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="public data (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=Path("build/bench-disruption"), help="for files")
    parser.add_argument("--json", type=Path, default=Path("build/bench-disruption.json"), help="the result")
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


if __name__ == "__main__":
    main()
