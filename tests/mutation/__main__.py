"""Breaks the project in one place at a time and asks the tests of the area: `python -m tests.mutation --sample 500 --seed 1`.

Works on a copy of the checkout. Prints a line for each fault that nobody noticed; all in `--json`. Exit code 1 where fewer than
`--wanted` per cent were noticed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from tests.mutation.areas import ROOT, SUITES, area_of, modules
from tests.mutation.forked import LATE, PASSED, Forked
from tests.mutation.mutants import Mutant, broken, mutants

_FIRST_SECONDS_MAX: Final = 900.0
"""For an area's tests on the sound project."""

_PATIENCE: Final = 3.0
"""A fault that makes tests take so many times as long counts as noticed."""


class Fate(msgspec.Struct, frozen=True):
    """What became of a mutant: `noticed` by which test, empty where by none."""

    mutant: Mutant
    area: str
    noticed: str
    seconds: float


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Sample, break, ask, tell."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--area", action="append", choices=sorted(SUITES), help="only these; all where none is named")
    parser.add_argument("--wanted", type=int, default=0, help="per cent")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    chosen = sample(arguments.area or sorted(SUITES), arguments.sample, arguments.seed)
    fates = _tried(chosen)
    summary = summarised(fates, arguments.seed)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(summary, indent=2))
    for area, score in summary["areas"].items():
        _say(f"{area}: {score['noticed']} of {score['mutants']} noticed")
    _say(f"{summary['noticed']} of {summary['mutants']} noticed ({summary['percent']} %), seed {arguments.seed}")
    return int(summary["percent"] < arguments.wanted)


def sample(areas: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """So many faults of all that can be made in these areas, the same for a seed, in the order of the modules."""
    every = [m for area in areas for path in modules(area) for m in mutants(path, (ROOT / path).read_text())]
    draw = Random(seed)  # noqa: S311 - a sample
    return sorted(draw.sample(every, min(count, len(every))))


def summarised(fates: Sequence[Fate], seed: int) -> dict[str, Any]:
    """The score by area, and the faults that nobody noticed."""
    made, seen = Counter(f.area for f in fates), Counter(f.area for f in fates if f.noticed)
    noticed = sum(seen.values())
    return {
        "seed": seed,
        "mutants": len(fates),
        "noticed": noticed,
        "percent": 100 * noticed // max(len(fates), 1),
        "areas": {area: {"mutants": made[area], "noticed": seen[area]} for area in sorted(made)},
        "survivors": [msgspec.to_builtins(fate.mutant) for fate in fates if not fate.noticed],
    }


def _tried(chosen: Sequence[Mutant]) -> list[Fate]:
    with tempfile.TemporaryDirectory(prefix="fleetwright-mutants-") as folder:
        root = _copied(Path(folder) / "project")
        os.chdir(root)
        sys.path.insert(0, str(root))
        for name in [name for name in sys.modules if name.partition(".")[0] in ("core", "tests", "lambdas")]:
            if not name.startswith("tests.mutation"):
                del sys.modules[name]  # of the checkout: the copy's are to be imported
        forked, limits = Forked(), {}
        fates = []
        for mutant in chosen:
            area = area_of(mutant.path)
            if area not in limits:
                limits[area] = _PATIENCE * _sound(forked, area) + 10
            fates.append(_asked(forked, root, mutant, limits[area]))
            if not fates[-1].noticed:
                _say(f"survived: {mutant.path}:{mutant.line}: `{mutant.was}` → `{mutant.now}`")
    return fates


def _sound(forked: Forked, area: str) -> float:
    """How long the area's tests take on the sound project, which must pass them."""
    ended = forked.run(SUITES[area], _FIRST_SECONDS_MAX)
    if ended.status != PASSED:
        raise SystemExit(f"{area}: its tests fail without any fault: {ended.first}")
    return ended.seconds


def _asked(forked: Forked, root: Path, mutant: Mutant, limit: float) -> Fate:
    path, area = root / mutant.path, area_of(mutant.path)
    sound = path.read_text()
    path.write_text(broken(sound, mutant))
    try:
        ended = forked.run(SUITES[area], limit)
    finally:
        path.write_text(sound)
    noticed = "" if ended.status == PASSED else ended.first if ended.status != LATE else "it took too long"
    return Fate(mutant, area, noticed, round(ended.seconds, 1))


def _copied(root: Path) -> Path:
    """The checkout's files that git knows, and what is new."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S603 - fixed arguments
    for name in said.stdout.splitlines():
        if (ROOT / name).is_file():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, root / name)
    return root


if __name__ == "__main__":
    began = time.monotonic()
    code = main()
    _say(f"{time.monotonic() - began:.0f} s")
    sys.exit(code)
