"""Judges plans by kube-scheduler's own plugins: `make oracle-scheduler SEEDS=300`, or `python -m tests.oracle_scheduler`.

The program around these plugins is built from Go sources beside the project. Where these or Go are missing, nothing is judged,
and a line says so. Exit code 1 if a plan has a pod on a node that the scheduler refuses, or leaves one that it would place.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from cli.__main__ import main as fleetwright
from core.catalogue import document
from installation.array_threads import ARRAY_THREADS
from tests.oracle_scheduler.clusters import random_cluster, with_sidecar_ports
from tests.property.naive_manifests.writing import written

BUILT: Final = Path("build/oracle-scheduler")
NOW: Final = "2026-01-01T00:00:00Z"

Case = tuple[str, Path, Path, str]
"""Name, manifests, catalogue, and the time of the decision."""


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def build(shared: Path) -> Path | None:
    """Return the program, built once; None where it cannot be built."""
    given = os.environ.get("ORACLE_SCHEDULER")
    if given:
        return Path(given)
    program, source = BUILT / "program", shared / "oracle-scheduler"
    if program.exists():
        return program.resolve()
    if not source.is_dir() or shutil.which("go") is None:
        _say("oracle-scheduler: not judged, since Go or the sources of the scheduler's program are not here")
        return None
    copied = BUILT / "source"
    shutil.copytree(source, copied, dirs_exist_ok=True)
    for path in copied.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    subprocess.run(["go", "build", "-o", program.resolve(), "."], cwd=copied, check=True)  # noqa: S603, S607 - go from PATH
    return program.resolve()


def conformance(shared: Path, folder: Path) -> Iterator[Case]:
    """Every scenario of the scheduling corpus."""
    corpus = shared / "conformance"
    for path in sorted((corpus / "scheduling").glob("*.yaml")):
        scenario = yaml.safe_load(path.read_text(encoding="utf-8"))
        manifests = folder / f"{path.stem}.yaml"
        manifests.write_text(_documents(scenario["input"]), encoding="utf-8")
        yield path.stem, manifests, corpus / "catalogs" / f"{scenario['catalog']}.json", str(scenario.get("now", NOW))


def clusters(first: int, seeds: int, folder: Path) -> Iterator[Case]:
    """Random clusters, written as manifests."""
    for seed in range(first, first + seeds):
        snapshot, draw = random_cluster(seed), Random(f"scheduler written {seed}")  # noqa: S311 - a test's dice
        objects = with_sidecar_ports(seed, written(snapshot, draw, defaulted=True))
        manifests, catalogue = folder / f"seed-{seed}.yaml", folder / f"seed-{seed}-catalogue.json"
        listed = [
            {"apiVersion": kind.api_version, "kind": kind.kind, **written_object}
            for kind, found in objects.items()
            for written_object in found
        ]
        manifests.write_text(_documents(listed), encoding="utf-8")
        catalogue.write_bytes(document.encode(snapshot.catalogue))
        yield f"seed {seed}", manifests, catalogue, f"{snapshot.now:%Y-%m-%dT%H:%M:%SZ}"


def _documents(objects: list[Any]) -> str:
    return "\n---\n".join(json.dumps(one, default=str) for one in objects)


def judged(program: Path, case: Case, emulated: str) -> dict[str, Any]:
    """Return the scheduler's word on the plan of one case."""
    _, manifests, catalogue, now = case
    plan = manifests.with_suffix(".plan.json")
    out = io.StringIO()
    arguments = ["plan", "-f", str(manifests), "--catalog", str(catalogue), "--now", now, "-o", "json"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        fleetwright([*arguments, "--time-budget", "0.2"])
    plan.write_text(out.getvalue(), encoding="utf-8")
    command = [str(program), "judge", "--input", str(manifests), "--catalog", str(catalogue), "--plan", str(plan)]
    command += ["-o", "json", *(["--emulate", emulated] if emulated else [])]
    found = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
    if found.returncode not in (0, 1):
        return {"violations": [{"message": f"not judged: {found.stderr.strip()[-300:]}"}], "wronglyUnschedulable": []}
    answer: dict[str, Any] = json.loads(found.stdout)
    return answer


def main() -> int:
    """Read the command line and judge."""
    os.environ.update(ARRAY_THREADS)  # before numpy is loaded, as in the tests
    parser = argparse.ArgumentParser(description="Judge plans by the plugins of the real kube-scheduler.")
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--seeds", type=int, default=300, help="how many random clusters")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--emulate", default="", metavar="1.NN", help="feature gates of this version, 1.31 to 1.37")
    parser.add_argument("--json", type=Path, default=Path("build/oracle-scheduler.json"))
    parser.add_argument("--no-conformance", action="store_true", help="random clusters only")
    args = parser.parse_args()
    program = build(args.shared)
    if program is None:
        return 0
    found: dict[str, Any] = {"plans": 0, "violations": [], "wronglyUnschedulable": [], "kubernetes": ""}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        corpus = () if args.no_conformance else conformance(args.shared, Path(folder))
        for cases in (corpus, clusters(args.first, args.seeds, Path(folder))):
            for case in cases:
                answer = judged(program, case, args.emulate)
                found["plans"] += 1
                found["kubernetes"] = answer.get("kubernetes", found["kubernetes"])
                for kind in ("violations", "wronglyUnschedulable"):
                    for one in answer.get(kind) or ():
                        found[kind].append({"case": case[0], **one})
                        _say(f"{case[0]}: {kind}: {json.dumps(one)[:300]}")
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    wrong = len(found["violations"]) + len(found["wronglyUnschedulable"])
    _say(f"{found['plans']} plans, {wrong} disagreements with kube-scheduler, {time.monotonic() - started:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
