"""Applies one mutant at a time and runs the tests of its area: `python -m tests.mutation --sample 500 --seed 1`.

Works on copies of the checkout, one for each of `--processes`. Prints a line for each fault that survives; all figures go to
`--json`. Exit code 1 where fewer than `--wanted` per cent are killed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

from tests.mutation.areas import ROOT, SUITES, modules
from tests.mutation.fates import Fate, fates_of
from tests.mutation.mutants import Mutant, mutants

_PROCESSES: Final = 2


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Sample mutants, run tests on each, report."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=_PROCESSES)
    parser.add_argument("--area", action="append", choices=sorted(SUITES), help="only these; all where none is named")
    parser.add_argument("--wanted", type=int, default=0, help="per cent")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    chosen = sample(arguments.area or sorted(SUITES), arguments.sample, arguments.seed)
    fates = []
    for fate in fates_of(chosen, arguments.processes):
        fates.append(fate)
        if not fate.killer:
            _say(f"survived: {fate.mutant.path}:{fate.mutant.line}: {what(fate.mutant)}")
    summary = summarised(fates, arguments.seed)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(summary, indent=2))
    for area, score in summary["areas"].items():
        _say(f"{area}: {score['killed']} of {score['mutants']} killed")
    _say(f"{summary['killed']} of {summary['mutants']} killed ({summary['percent']} %), seed {arguments.seed}")
    return int(summary["percent"] < arguments.wanted)


def sample(areas: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """A sample of all mutants of these areas, the same for a seed, in the order of the modules."""
    every = [m for area in areas for path in modules(area) for m in mutants(path, (ROOT / path).read_text())]
    draw = Random(seed)  # noqa: S311 - a sample
    return sorted(draw.sample(every, min(count, len(every))))


def what(mutant: Mutant) -> str:
    """The fault in words: the code before and after."""
    return f"`{mutant.was}` → `{mutant.now}`"


def summarised(fates: Sequence[Fate], seed: int) -> dict[str, Any]:
    """The score by area, and the survivors."""
    made, dead = Counter(f.area for f in fates), Counter(f.area for f in fates if f.killer)
    killed = sum(dead.values())
    return {
        "seed": seed,
        "mutants": len(fates),
        "killed": killed,
        "percent": 100 * killed // max(len(fates), 1),
        "areas": {area: {"mutants": made[area], "killed": dead[area]} for area in sorted(made)},
        "survivors": [
            {"file": fate.mutant.path, "line": fate.mutant.line, "what": what(fate.mutant)}
            for fate in sorted(fates, key=lambda fate: fate.mutant)
            if not fate.killer
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
