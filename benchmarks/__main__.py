"""`python -m benchmarks`: run cases, print the table, store everything as JSON."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Final

from benchmarks.cases import CASES, Case, budgets_of, selected
from benchmarks.commit import commit
from benchmarks.files import Files, written
from benchmarks.peer import Peer, PeerError, built_peer, karpenter_version
from benchmarks.table import below_bound, gives_up_more, table
from installation.array_threads import ARRAY_THREADS

_CASE_SECONDS_MAX: Final = 900
_EXAMPLES: Final = """examples:
  python -m benchmarks --quick
  python -m benchmarks --only diverse-1k,lognormal-10k --no-peer --repeats 3
  python -m benchmarks --only 'diverse-*' --peer-memory build/bench/peer.json
  python -m benchmarks --only diverse-10k --profile
"""


def main() -> int:
    """Run the requested cases; returns 1 if a plan was wrong or a case failed."""
    arguments = _arguments()
    try:
        cases = selected(arguments.only, quick=arguments.quick)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if arguments.profile:
        return _profile(cases, arguments)
    peer, why_no_peer = built_peer(arguments.work, arguments.peer_memory, is_wanted=not arguments.no_peer)
    results = [_result(case, arguments, peer) for case in cases]
    document = {
        "quick": arguments.quick,
        "commit": commit(),
        "load": os.getloadavg()[0],
        "cpus": os.cpu_count(),
        "peer": why_no_peer or karpenter_version(),
        "cases": results,
    }
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(document, indent=1))
    print(table(results, why_no_peer))
    return int(any(_is_wrong(result) for result in results))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = ", ".join(case.name for case in CASES)
    parser.add_argument(
        "--only", default="", metavar="NAMES", help=f"cases, with commas between; `x*`: all in x: {names}"
    )
    parser.add_argument("--quick", action="store_true", help="the selection for two minutes")
    parser.add_argument("--repeats", type=int, metavar="N", help="number of plans (default: each case's own)")
    parser.add_argument(
        "--budgets", type=_budgets, metavar="S,S", help="seconds for improving, instead of the case's own"
    )
    parser.add_argument("--no-peer", action="store_true", help="leave Karpenter out")
    parser.add_argument("--peer-memory", type=Path, metavar="FILE", help="use Karpenter's answers that were kept here")
    parser.add_argument("--no-judge", action="store_true", help="do not check the plans")
    parser.add_argument("--profile", action="store_true", help="say where the time goes, instead of the table")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="public data (default: %(default)s)")
    parser.add_argument("--work", type=Path, default=Path("build/bench"), help="for files (default: %(default)s)")
    parser.add_argument("--json", type=Path, default=Path("build/bench.json"), help="the result (default: %(default)s)")
    return parser.parse_args()


def _budgets(text: str) -> list[float]:
    return [float(part) for part in text.split(",") if part]


def _result(case: Case, arguments: argparse.Namespace, peer: Peer | None) -> dict[str, Any]:
    """Return the result of one case: our plans run first, then Karpenter's, never at the same time."""
    started = time.perf_counter()
    result: dict[str, Any] = {"name": case.name, "load": os.getloadavg()[0]}
    missing = case.missing(arguments.data)
    if missing:
        return result | {"skipped": missing}
    files = written(case.make(arguments.data), arguments.work / case.name)
    result |= {"digest": files.digest()} | _measured(case, files, arguments)
    if peer is not None and case.peer_repeats:
        try:
            result["peer"] = peer.plan(files, case.peer_repeats)
        except PeerError as error:
            result["peerFailed"] = str(error)
    print(f"{case.name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    return result


def _measured(case: Case, files: Files, arguments: argparse.Namespace) -> dict[str, Any]:
    budgets = arguments.budgets if arguments.budgets is not None else budgets_of(case, quick=arguments.quick)
    command = [sys.executable, "-m", "benchmarks.measure", str(files.folder)]
    command += ["--repeats", str(arguments.repeats or case.repeats), "--budgets", json.dumps(budgets)]
    command += ["--improved-repeats", "1" if arguments.quick else "3"]
    command += ["--no-judge"] if arguments.no_judge else []
    ended = subprocess.run(  # noqa: S603 - the program and its arguments are ours
        command,
        env={**os.environ, **ARRAY_THREADS},
        capture_output=True,
        text=True,
        check=False,
        timeout=_CASE_SECONDS_MAX,
    )
    if ended.returncode:
        return {"failed": ended.stderr.strip()[-2000:]}
    figures: dict[str, Any] = json.loads(ended.stdout)
    return figures


def _profile(cases: list[Case], arguments: argparse.Namespace) -> int:
    from benchmarks.profiling import profiled

    for case in cases:
        if case.missing(arguments.data):
            continue
        files = written(case.make(arguments.data), arguments.work / case.name)
        budgets = arguments.budgets if arguments.budgets is not None else budgets_of(case, quick=True)
        print(f"\n{case.name}")
        print(profiled(files, budgets[0] if budgets else None))
    return 0


def _is_wrong(result: dict[str, Any]) -> bool:
    plans = [result["greedy"], *result["improved"]] if "greedy" in result else []
    is_wrong = "failed" in result or below_bound(result) or gives_up_more(result)
    return is_wrong or any(plan.get("judged", {}).get("count") for plan in plans)


if __name__ == "__main__":
    sys.exit(main())
