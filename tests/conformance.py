"""Runs the public scenarios of Karpenter's behaviour: `python -m tests.conformance FOLDER`.

A scenario that contradicts a witness from outside fails on purpose: `DECIDED` names it, with the witness. Exit code 1 where
another scenario fails, or where a decided one passes, because then its entry is out of date.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
COMMAND: Final = f"{sys.executable} -m cli"

DECIDED: Final = {
    "combined-taint-and-spread": (
        "Karpenter counts a zone that only a tainted NodePool could serve. kube-scheduler counts zones with nodes, so that"
        " pods without the toleration run in the others (pkg/scheduler/framework/plugins/podtopologyspread/filtering.go)."
    ),
    "ds-limits-default-to-requests": (
        "Karpenter adds a DaemonSet that fits on no type to every new node, so that nothing is launched. kube-scheduler lets"
        " the DaemonSet's pod wait and binds the others. One object must not stop all launches"
        " (docs/explanation/failure-model.md)."
    ),
    "seed-gpu-without-toleration-unschedulable": (
        "EKS admits pods with ExtendedResourceToleration: a pod that requests nvidia.com/gpu tolerates the taint nvidia.com/gpu"
        " (EKS user guide, platform versions; Kubernetes documentation, admission controllers)."
    ),
}
"""Scenario → why it fails here on purpose, with the witness."""

RUNS: Final = (("run.py", ()), ("run_disruption.py", ("--have", "feature-gates")))
SECONDS_MAX: Final = 3600


def failing(folder: Path) -> tuple[set[str], int]:
    """Return the names of the scenarios that fail, and how many ran.

    Raises:
        SystemExit: If a runner could not judge its corpus.
    """
    names: set[str] = set()
    total = 0
    for script, arguments in RUNS:
        with tempfile.TemporaryDirectory() as temporary:
            results = Path(temporary) / "results.json"
            command = [sys.executable, str(folder / script), "--cmd", COMMAND, "--json", str(results), *arguments]
            done = subprocess.run(command, cwd=ROOT, timeout=SECONDS_MAX, check=False)  # noqa: S603 - the corpus's own runner
            if done.returncode not in (0, 1) or not results.exists():
                sys.exit(f"{script} could not judge its scenarios: exit code {done.returncode}")
            entries = json.loads(results.read_text())["results"]
        total += len(entries)
        names |= {entry["name"] for entry in entries if entry["status"] not in ("pass", "passed", "skipped")}
    return names, total


def verdict(names: set[str]) -> list[str]:
    """Return a line for each scenario that fails without a decision, and for each decision without a failure."""
    undecided = [f"{name} fails" for name in sorted(names - DECIDED.keys())]
    return undecided + [
        f"{name} passes: its entry in DECIDED is out of date" for name in sorted(DECIDED.keys() - names)
    ]


def main() -> int:
    """Print what fails, and why on purpose."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("folder", type=Path)
    names, total = failing(parser.parse_args().folder)
    for name in sorted(names & DECIDED.keys()):
        sys.stdout.write(f"{name} fails on purpose: {DECIDED[name]}\n")
    wrong = verdict(names)
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(
        f"{total - len(names)} of {total} scenarios hold, {len(names & DECIDED.keys())} decided otherwise\n"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
