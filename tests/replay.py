"""Records what the functions decide in the demo, the trace and the campaign, and repeats every decision byte for byte.

`python -m tests.replay --seeds 90`. The ledgers are replayed in other processes with another hash seed, by this Python and by
each `--python`, such as the one that Lambda runs. Figures go to `--json`. Exit code 1 where a decision is different or cannot
be read, or where fewer than `--wanted` were made.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

from core.ledger.reading import DECISIONS

ROOT: Final = Path(__file__).parents[1]
_SECONDS_MAX: Final = 3600.0
"""For one recording or one replay."""

_HASH_SEED: Final = "4711"

PARTS: Final = 4
"""The campaign's ledgers are replayed in so many parts: a process for each would take longer to start than to decide."""


def main() -> int:
    """Record, replay, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay", description=__doc__)
    parser.add_argument("--seeds", type=int, default=90, help="of the campaign")
    parser.add_argument(
        "--recorded",
        type=Path,
        help="the ledgers of seeds that `simulator.campaign --ledger` left, in place of a campaign",
    )
    parser.add_argument("--processes", type=int, default=2, help="how many at once")
    parser.add_argument("--python", action="append", default=[], help="another interpreter with the requirements")
    parser.add_argument("--wanted", type=int, default=1000, help="decisions")
    parser.add_argument("--scenario", action="append", default=[], help="a YAML file; may be repeated")
    parser.add_argument("--work", type=Path, default=ROOT / "build" / "replay", help="for ledgers")
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "replay.json")
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    ledgers = list(_recorded(arguments))
    with ThreadPoolExecutor(arguments.processes) as pool:
        found = {python: _replayed(python, ledgers, pool) for python in (sys.executable, *arguments.python)}
    arguments.json.parent.mkdir(parents=True, exist_ok=True)
    arguments.json.write_text(json.dumps(summarised(found), indent=1) + "\n")
    for python, figures in found.items():
        said = f"{figures['equal']} of {figures['decisions']} decisions of {len(ledgers)} ledgers are the same, byte for byte"
        sys.stdout.write(f"{python}: {said}\n")
    return int(any(not is_held(figures, arguments.wanted) for figures in found.values()))


def is_held(figures: dict[str, Any], wanted: int) -> bool:
    """Whether so many decisions were repeated, and all of them."""
    return bool(figures["decisions"] >= wanted and figures["equal"] == figures["decisions"])


def summarised(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The fields of `build/replay.json`: figures by version of Python."""
    return {"pythons": {figures["python"]: figures for figures in found.values()}}


def _recorded(arguments: argparse.Namespace) -> Iterator[Path]:
    """Yield the ledgers, one for each scenario and for each part of the seeds."""
    work: Path = arguments.work
    for scenario in arguments.scenario:
        ledger = work / Path(scenario).stem
        _run([sys.executable, "-m", "cli", "simulate", scenario, "--ledger", str(ledger), "-o", "json"])
        yield ledger
    if arguments.recorded:
        yield from in_parts(arguments.recorded, work / "parts")
    elif arguments.seeds:
        ledger = work / "campaign"
        campaign = ["--seeds", str(arguments.seeds), "--processes", str(arguments.processes), "--ledger", str(ledger)]
        _run([sys.executable, "-m", "simulator.campaign", *campaign, "--json", str(work / "campaign.json")])
        yield from in_parts(ledger, work / "parts")


def in_parts(ledgers: Path, into: Path) -> list[Path]:
    """Join the ledgers of several seeds to at most `PARTS`; the cluster of each seed's decisions is named after the seed."""
    for number, ledger in enumerate(sorted(ledgers.iterdir())):
        for file in sorted(found for found in ledger.rglob("*") if found.is_file()):
            folder, cluster, *rest = file.relative_to(ledger).parts
            place = into / str(number % PARTS) / folder / (ledger.name if folder == DECISIONS else cluster)
            place.joinpath(*rest[:-1]).mkdir(parents=True, exist_ok=True)
            target = place.joinpath(*rest)
            if not target.exists():  # bases are named by their content, and no replay reads the pointers to them
                os.link(file, target)
    return sorted(into.iterdir())


def _replayed(python: str, ledgers: Sequence[Path], pool: ThreadPoolExecutor) -> dict[str, Any]:
    """Repeat the decisions of all ledgers by this interpreter."""
    version = _run([python, "-c", "import platform; print(platform.python_version())"]).strip()
    figures: dict[str, Any] = {"python": version, "decisions": 0, "equal": 0, "different": [], "unreadable": []}
    for ledger, document in zip(ledgers, pool.map(partial(replayed, python), ledgers), strict=True):
        for name in ("decisions", "equal"):
            figures[name] += document[name]
        for name in ("different", "unreadable"):
            figures[name] += [{"ledger": ledger.name, **found} for found in document[name]]
    return figures


def replayed(python: str, ledger: Path) -> dict[str, Any]:
    """Return what `fleetwright replay` answers about a ledger, in a process of this interpreter.

    Raises:
        RuntimeError: If it fails.
    """
    document: dict[str, Any] = json.loads(_run([python, "-m", "cli", "replay", "--ledger", str(ledger), "-o", "json"]))
    return document


def _run(command: Sequence[str]) -> str:
    """Return what a command prints; a negative answer is one, too.

    Raises:
        RuntimeError: If it fails.
    """
    environment = os.environ | {"PYTHONHASHSEED": _HASH_SEED}
    done = subprocess.run(  # noqa: S603 - the project's own commands
        command, cwd=ROOT, env=environment, timeout=_SECONDS_MAX, check=False, text=True, capture_output=True
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
