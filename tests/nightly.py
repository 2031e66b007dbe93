"""Runs everything that is too long for CI, one after the other, and writes what came of it to one file.

`python -m tests.nightly --sizes SEEDS=10000,CASES=20000,SAMPLE=500`. The file grows step by step, so that a night that is cut
short keeps what it found; a new file begins with what docs/figures.json has. Each step says when and of which commit it was
run: one that is run alone (`--only`) takes the place of its earlier run, and the others stay. Exit code 1 where a step failed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

ROOT: Final = Path(__file__).parents[1]
_LAST_LINES: Final = 5
_SEEDS_KEPT: Final = 100
"""The most failing seeds of a step that are kept, each with its line."""
_STEP_SECONDS_MAX: Final = 12 * 3600.0


class Step(msgspec.Struct, frozen=True):
    """A target of the Makefile.

    Attributes:
        name: What the file calls it.
        target: The target, with the variables that it is given.
        figures: The JSON that it leaves, from the root of the repository; empty for none.
        environment: Variables that lengthen it.
    """

    name: str
    target: str
    figures: str = ""
    environment: Mapping[str, str] = msgspec.field(default_factory=dict)


STEPS: Final = (
    Step("tests", "test-long HYPOTHESIS=nightly"),
    Step("coverage", "coverage HYPOTHESIS=nightly"),
    Step("lambda-python", "test-lambda-python"),
    Step("conformance", "conformance"),
    Step("fuzz-scheduling", "fuzz-scheduling CASES={CASES} SEED={SEED}"),
    Step("fuzz-tight", "fuzz-tight CASES={CASES} SEED={SEED}"),
    Step("fuzz-disruption", "fuzz-disruption CASES={CASES} SEED={SEED}"),
    Step("fuzz-manifests", "fuzz-manifests CASES={CASES} SEED={SEED}"),
    Step("sim", "sim SEEDS={SEEDS} FIRST={SEED}", "build/sim.json"),
    Step("replay", "replay REPLAYED={REPLAYED}", "build/replay.json"),
    Step("mutants", "mutants SAMPLE={SAMPLE} SEED={SEED}", "build/mutants.json"),
    Step("mutants-named", "mutants-named", "build/mutants-named.json"),
    Step("bench", "bench", "build/bench.json"),
    Step("bench-disruption", "bench-disruption", "build/bench-disruption.json"),
    Step("scale", "scale", "build/scale.json"),
    Step("e2e", "e2e", "build/e2e.json", {"FLEETWRIGHT_E2E_WHOLE_CORPUS": "1"}),
)
SIZES: Final = {"SEEDS": "10000", "CASES": "20000", "SEED": "1", "SAMPLE": "500", "REPLAYED": "60"}


def main() -> int:
    """Run the steps that are asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description=__doc__)
    parser.add_argument("--only", default="", help=f"some of {', '.join(step.name for step in STEPS)}, with commas")
    parser.add_argument("--sizes", default="", help="NAME=VALUE with commas, of " + ", ".join(sorted(SIZES)))
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "nightly.json")
    arguments = parser.parse_args()
    chosen = chosen_steps(arguments.only)
    sizes = chosen_sizes(arguments.sizes)
    return run(chosen, sizes, arguments.json)


def chosen_steps(names: str) -> tuple[Step, ...]:
    """The named steps in their own order, all where none is named.

    Raises:
        SystemExit: If there is no such step.
    """
    wanted = [name for name in names.split(",") if name]
    unknown = [name for name in wanted if name not in {step.name for step in STEPS}]
    if unknown:
        raise SystemExit(f"--only: there is no step {unknown[0]!r}; there are {', '.join(step.name for step in STEPS)}")
    return tuple(step for step in STEPS if not wanted or step.name in wanted)


def chosen_sizes(said: str) -> dict[str, str]:
    """The sizes of a night, but for those that are given.

    Raises:
        SystemExit: If one has no such name or is no number.
    """
    sizes = dict(SIZES)
    for pair in (pair for pair in said.split(",") if pair):
        name, _, value = pair.partition("=")
        if name not in sizes or not value.isdecimal():
            raise SystemExit(f"--sizes: {pair!r} is no NAME=NUMBER of {', '.join(sorted(SIZES))}")
        sizes[name] = value
    return sizes


def run(steps: Sequence[Step], sizes: Mapping[str, str], path: Path) -> int:
    """Run each step, whatever became of those before it, and keep the file up to date."""
    path.parent.mkdir(parents=True, exist_ok=True)
    before = path if path.exists() else ROOT / "docs" / "figures.json"
    earlier: dict[str, Any] = json.loads(before.read_text())["steps"] if before.exists() else {}
    found: dict[str, Any] = {
        "machine": {"processors": os.cpu_count(), "python": platform.python_version()},
        "steps": {name: result for name, result in earlier.items() if _is_known(name)},
    }
    for step in steps:
        found["steps"][step.name] = _ran(step, sizes)
        path.write_text(json.dumps(found, indent=2) + "\n")
    failed = [step.name for step in steps if found["steps"][step.name]["exitCode"] != 0]
    sys.stdout.write(f"{len(steps)} steps, {len(failed)} failed{': ' if failed else ''}{', '.join(failed)}; {path}\n")
    return int(bool(failed))


def _is_known(name: str) -> bool:
    """Whether a result is of a step of today's, or a sample of some areas that was kept beside them."""
    return name.startswith("mutants-") or name in {step.name for step in STEPS}


def _ran(step: Step, sizes: Mapping[str, str]) -> dict[str, Any]:
    command = ["make", "--no-print-directory", *step.target.format_map(sizes).split()]
    sys.stdout.write(f"{' '.join(command)}\n")
    sys.stdout.flush()
    figures = ROOT / step.figures if step.figures else None
    if figures is not None:
        figures.unlink(missing_ok=True)  # those of an earlier night would pass for this one's
    of = {"startedAt": datetime.now(UTC).isoformat(timespec="seconds"), "commit": _commit()}
    began = time.monotonic()
    try:
        ended = subprocess.run(  # noqa: S603 - a target of the project's own Makefile
            command, cwd=ROOT, env=os.environ | step.environment, timeout=_STEP_SECONDS_MAX, check=False, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        status, printed = ended.returncode, ended.stdout
    except subprocess.TimeoutExpired:
        status, printed = -1, f"not done after {_STEP_SECONDS_MAX:.0f} s"
    lines = printed.splitlines()
    return {
        **of,
        "command": " ".join(command),
        "exitCode": status,
        "seconds": round(time.monotonic() - began),
        "lastLines": lines[-_LAST_LINES:],
        "failingSeeds": [line for line in lines if line.startswith("seed ")][:_SEEDS_KEPT],
        "figures": json.loads(figures.read_text()) if figures is not None and figures.exists() else None,
    }


def _commit() -> str:
    command = ["git", "rev-parse", "HEAD"]
    git = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)  # noqa: S603 - fixed arguments
    return git.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
