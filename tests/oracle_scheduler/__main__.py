"""Judges plans by kube-scheduler's own plugins: `make oracle-scheduler SEEDS=300`, or `python -m tests.oracle_scheduler`.

The program around these plugins is built from Go sources beside the project. Where these or Go are missing, nothing is judged,
and a line says so. Judged are plans and, wave by wave, consolidations: of the conformance corpora and of random clusters. Exit
code 1 if one has a pod on a node that the scheduler refuses, or leaves one that it would place.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

import yaml

from cli.__main__ import main as fleetwright
from core.catalogue import document
from installation.array_threads import ARRAY_THREADS
from tests.e2e.parts import builds
from tests.e2e.parts.processes import LackingError
from tests.oracle_scheduler.asking import Json, Question, documents
from tests.oracle_scheduler.clusters import as_stored, random_cluster, with_sidecar_ports, with_unparsable_preferences
from tests.oracle_scheduler.consolidation import states
from tests.oracle_scheduler.wider import widened
from tests.property.naive_manifests.writing import written

PROGRAM: Final = "oracle-scheduler"
NOW: Final = "2026-01-01T00:00:00Z"

DECIDED: Final = {
    "ds-limits-default-to-requests": (
        "the program puts a DaemonSet's pod on each new node, also one that is too large for it; the scheduler lets it wait"
    ),
    "vol-hostpath-host-is-ignored": "the volume's node is gone: a new node is launched, as Karpenter does",
    "vol-local-zone-still-binds": "the volume's node is gone: a new node is launched, as Karpenter does",
}
"""Scenario → why its plan differs from kube-scheduler's word on purpose (docs/reference/how-we-read-kubernetes.md)."""

KINDS: Final = ("violations", "wronglyUnschedulable", "orderEffects")


class Case(NamedTuple):
    """A cluster. `arguments` are further ones of the command line; `consolidates` if nodes are to go."""

    name: str
    objects: Sequence[Json]
    catalogue: Path
    now: str
    arguments: Sequence[str] = ()
    consolidates: bool = False


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def build(shared: Path) -> Path | None:
    """Return the program, built once for all checkouts of a user; None where it cannot be built."""
    given = os.environ.get("ORACLE_SCHEDULER")
    if given:
        return Path(given)
    source = shared / "oracle-scheduler"
    if not source.is_dir() or shutil.which("go") is None:
        _say("oracle-scheduler: not judged, since Go or the sources of the scheduler's program are not here")
        return None
    try:
        return builds.kept_program(PROGRAM, source)
    except LackingError:
        _say("oracle-scheduler: not judged, since the modules of the scheduler's program cannot be downloaded here")
        return None


def conformance(shared: Path) -> Iterator[Case]:
    """Every scenario of the corpora of plans and of disruptions."""
    corpus = shared / "conformance"
    for folder in ("scheduling", "disruption"):
        for path in sorted((corpus / folder).glob("*.yaml")):
            scenario = yaml.safe_load(path.read_text(encoding="utf-8"))
            catalogue = corpus / "catalogs" / f"{scenario['catalog']}.json"
            if scenario.get("env"):
                continue  # gates of the environment: what they change is no matter of the scheduler
            arguments, now = scenario.get("args") or (), str(scenario.get("now", NOW))
            yield Case(path.stem, [*_unfolded(scenario["input"])], catalogue, now, arguments, folder == "disruption")


def _unfolded(objects: Sequence[Any]) -> Iterator[Json]:
    for one in objects:
        yield from _unfolded(one["items"]) if str(one.get("kind", "")).endswith("List") else (one,)


def clusters(first: int, seeds: int, folder: Path, emulated: str) -> Iterator[Case]:
    """Random clusters, as the API server of a version stores them, each to be planned and to be consolidated."""
    for seed in range(first, first + seeds):
        snapshot, draw = random_cluster(seed), Random(f"scheduler written {seed}")  # noqa: S311 - a test's dice
        by_kind = with_sidecar_ports(seed, written(snapshot, draw, defaulted=True))
        by_kind = as_stored(emulated, widened(seed, with_unparsable_preferences(seed, by_kind)))
        objects = [
            {"apiVersion": kind.api_version, "kind": kind.kind, **written_object}
            for kind, written_objects in by_kind.items()
            for written_object in written_objects
        ]
        catalogue = folder / f"seed-{seed}-catalogue.json"
        catalogue.write_bytes(document.encode(snapshot.catalogue))
        now = f"{snapshot.now:%Y-%m-%dT%H:%M:%SZ}"
        yield Case(f"seed {seed}", objects, catalogue, now)
        yield Case(f"seed {seed}", objects, catalogue, now, ("--ignore-budgets",), consolidates=True)


def answer_of(case: Case, folder: Path) -> Json:
    """Return what the command line decides for a case."""
    manifests, out = folder / "input.yaml", io.StringIO()
    manifests.write_text(documents(case.objects), encoding="utf-8")
    command = "consolidate" if case.consolidates else "plan"
    arguments = [command, "-f", str(manifests), "--catalog", str(case.catalogue), "--now", case.now, "-o", "json"]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()), contextlib.suppress(SystemExit):
        fleetwright([*arguments, "--time-budget", "0.2", *case.arguments])
    answer: Json = json.loads(out.getvalue())
    return answer


def judged(program: Path, case: Case, folder: Path, emulated: str) -> Iterator[Json]:
    """Return the scheduler's word on the plan of one case, or on the state after each wave of its consolidation."""
    decided = answer_of(case, folder)
    plans: Iterable[tuple[Sequence[Json], Json]] = ((case.objects, decided),)
    if case.consolidates:
        has_moves = any(command["moves"] for command in decided.get("commands") or ())
        planned = answer_of(case._replace(consolidates=False, arguments=()), folder) if has_moves else {}
        plans = states(case.objects, decided, planned)
    for objects, plan in plans:
        yield Question(program, objects, case.catalogue, folder, emulated).answer(plan)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Judge plans by the plugins of the real kube-scheduler.")
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--seeds", type=int, default=300, help="how many random clusters")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--emulate", default="", metavar="1.NN", help="feature gates of this version, 1.31 to 1.37")
    parser.add_argument("--json", type=Path, default=Path("build/oracle-scheduler.json"))
    parser.add_argument("--no-conformance", action="store_true", help="random clusters only")
    return parser.parse_args()


def main() -> int:
    """Read the command line and judge."""
    os.environ.update(ARRAY_THREADS)  # before numpy is loaded, as in the tests
    args = _arguments()
    program = build(args.shared)
    if program is None:
        return 0
    found: Json = {"plans": 0, "waves": 0, "kubernetes": "", "decided": [], **{kind: [] for kind in KINDS}}
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        corpora = () if args.no_conformance else conformance(args.shared)
        for cases in (corpora, clusters(args.first, args.seeds, folder, args.emulate)):
            for case in cases:
                for answer in judged(program, case, folder, args.emulate):
                    _add(found, case, answer)
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(found, indent=1), encoding="utf-8")
    wrong = len(found["violations"]) + len(found["wronglyUnschedulable"])
    _say(
        f"{found['plans']} plans and {found['waves']} waves, {wrong} disagreements with kube-scheduler,"
        f" {len(found['orderEffects'])} refusals that another order avoids, {len(found['decided'])} decided otherwise,"
        f" {time.monotonic() - started:.0f} s"
    )
    return 1 if wrong else 0


def _add(found: Json, case: Case, answer: Json) -> None:
    """Add the scheduler's word on one plan or wave to the results."""
    found["waves" if case.consolidates else "plans"] += 1
    found["kubernetes"] = answer.get("kubernetes", found["kubernetes"])
    for kind in KINDS:
        for one in answer.get(kind) or ():
            decided = case.name in DECIDED
            found["decided" if decided else kind].append({"case": case.name, "command": _command(case), **one})
            if not decided and kind != "orderEffects":
                _say(f"{case.name}, {_command(case)}: {kind}: {json.dumps(one)[:300]}")


def _command(case: Case) -> str:
    return "consolidate" if case.consolidates else "plan"


if __name__ == "__main__":
    sys.exit(main())
