"""Which share of the announced moves hold if kube-scheduler's own plugins choose: `python -m tests.oracle_scheduler.agreement`.

A fragmented cluster is consolidated wave by wave, each decided on the state that the scheduler's choices left behind. Pods that
find no node get new ones, as `provision` would launch them. Equal pods of one controller are interchangeable.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from benchmarks.disruption.fragmented import FEW_PROTECTED, fragmented
from benchmarks.files import written as written_files
from benchmarks.measure import decoded
from benchmarks.workloads.ec2 import ec2_catalogue
from core.catalogue import document
from core.disruption import disrupt
from core.disruption.command import carried_out, joined
from core.disruption.decision import startable
from core.disruption.disruption_pass import DisruptionPass, fleet_price
from core.disruption.target.search import fleet_floor
from core.disruption.target.stored import after_commands
from core.model.plan import Command, Move
from core.model.pod import Pod
from core.model.snapshot import LEAST_ALLOCATED, MOST_ALLOCATED, Snapshot
from core.model.values.quantity import dollars
from core.model.values.taints import DISRUPTED, LEAVING
from core.scheduling.planner import schedule
from installation.array_threads import ARRAY_THREADS
from tests.oracle_scheduler.__main__ import build
from tests.oracle_scheduler.asking import documents
from tests.property.naive_manifests.writing import written

WAVES_MAX: Final = 60
replace = msgspec.structs.replace


class Course(msgspec.Struct, kw_only=True):
    """What one cluster's consolidation shows; prices in dollars an hour.

    Attributes:
        moves: The announced moves, all of which were evictions.
        held: Those that the scheduler made as announced.
        unplaced: Evicted pods for which the scheduler found no node.
    """

    cluster: str
    strategy: str
    moves: int = 0
    held: int = 0
    unplaced: int = 0
    waves: int = 0
    before: float = 0
    after: float = 0
    bound: float = 0


class Scheduler:
    """Asks kube-scheduler's plugins where pods go, one after the other, each from where the last one went."""

    def __init__(self, program: Path, snapshot: Snapshot, folder: Path, strategy: str) -> None:
        self._input, self._plan = folder / "cluster.yaml", folder / "plan.json"
        catalogue = folder / "catalogue.json"
        catalogue.write_bytes(document.encode(snapshot.catalogue))
        command = [str(program), "score", "--input", str(self._input), "--catalog", str(catalogue)]
        self._command = [*command, "--plan", str(self._plan), "--strategy", strategy, "-o", "json"]

    def places(self, snapshot: Snapshot, moves: Sequence[Move]) -> dict[str, str]:
        """Return pod → node for pods that left their nodes; those without a place are missing."""
        moving = {move.pod for move in moves}
        pods = tuple(replace(pod, node_name="", phase="Pending") if pod.key in moving else pod for pod in snapshot.pods)
        dice = Random("agreement")  # noqa: S311 - a test's dice
        objects = [
            {"apiVersion": kind.api_version, "kind": kind.kind, **written_object}
            for kind, written_objects in written(replace(snapshot, pods=pods), dice, defaulted=True).items()
            for written_object in written_objects
        ]
        self._input.write_text(documents([*objects, *_controllers(snapshot.pods)]), encoding="utf-8")
        bindings = [{"pod": move.pod, "node": move.to} for move in moves]
        self._plan.write_text(json.dumps({"kind": "Plan", "nodeClaims": [], "bindings": bindings, "unschedulable": []}))
        done = subprocess.run(self._command, capture_output=True, text=True, check=False)  # noqa: S603 - our own program
        if done.returncode not in (0, 1):
            raise SystemExit(done.stderr[-500:])
        elsewhere = json.loads(done.stdout).get("elsewhere") or {}
        chosen = {move.pod: elsewhere.get(move.pod, move.to) for move in moves}
        return {pod: node for pod, node in chosen.items() if node != "nowhere"}


def _controllers(pods: Iterable[Pod]) -> Iterable[dict[str, Any]]:
    """Yield the ReplicaSets of the pods, which give them default spreads."""
    owned = {(p.namespace, o.name): p for p in pods for o in p.owners if o.kind == "ReplicaSet" and p.labels}
    for (namespace, name), pod in sorted(owned.items()):
        template = {"metadata": {"labels": dict(pod.labels)}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
        yield {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"namespace": namespace, "name": name},
            "spec": {"replicas": 0, "selector": {"matchLabels": dict(pod.labels)}, "template": template},
        }


def course(name: str, snapshot: Snapshot, program: Path, strategy: str, folder: Path) -> Course:
    """Consolidate a cluster to the end."""
    scheduler = Scheduler(program, snapshot, folder, strategy)
    shown = Course(cluster=name, strategy=strategy, before=dollars(fleet_price(snapshot)))
    for _ in range(WAVES_MAX):
        plan = disrupt(snapshot, proves=False)
        commands = startable(plan.commands)
        if not commands:
            break
        shown.waves += 1
        later = plan.target and after_commands(plan.target, commands, snapshot.pods, {})
        real = _carried_out(snapshot, commands, {d.node for d in later.drains} if later else set(), scheduler, shown)
        snapshot = replace(_with_places(real), stored_target=later)
    shown.after, shown.bound = dollars(fleet_price(snapshot)), dollars(fleet_floor(DisruptionPass(snapshot)))
    return shown


def _carried_out(
    snapshot: Snapshot, commands: Sequence[Command], later: set[str], scheduler: Scheduler, shown: Course
) -> Snapshot:
    """Return the cluster after a wave whose pods go where the scheduler puts them. Drains that wait for no node come first."""
    going = {node for command in commands for node in command.nodes}
    marks = {**dict.fromkeys(sorted(later), LEAVING), **dict.fromkeys(sorted(going), DISRUPTED)}
    marked = [replace(n, taints=(*n.taints, marks[n.name])) if n.name in marks else n for n in snapshot.nodes]
    snapshot = replace(snapshot, nodes=tuple(marked))
    alone = [command for command in commands if not command.replacements]
    for part in [alone, *([command] for command in commands if command.replacements)]:
        started = [joined(claim, snapshot) for command in part for claim in command.replacements]
        there = replace(snapshot, nodes=(*snapshot.nodes, *(node for _, node in started)))
        node_of = {pod.key: pod.node_name for pod in snapshot.pods}
        moves = [
            move
            for command in part
            for node in command.nodes
            for move in sorted(command.moves)
            if node_of[move.pod] == node
        ]
        places = scheduler.places(there, moves) if moves else {}
        shown.moves += len(moves)
        shown.unplaced += len(moves) - len(places)
        shown.held += _held(snapshot.pods, moves, places)
        real = [replace(c, moves=tuple(Move(m.pod, places[m.pod]) for m in c.moves if m.pod in places)) for c in part]
        lost = {move.pod for move in moves} - places.keys()
        waiting = tuple(replace(pod, node_name="", phase="Pending") for pod in snapshot.pods if pod.key in lost)
        snapshot = carried_out(snapshot, *real)
        snapshot = replace(snapshot, pods=(*snapshot.pods, *waiting))
    unmarked = [replace(n, taints=tuple(t for t in n.taints if t != LEAVING)) for n in snapshot.nodes]
    return replace(snapshot, nodes=tuple(unmarked))


def _held(pods: Iterable[Pod], moves: Sequence[Move], places: dict[str, str]) -> int:
    owner = {pod.key: (pod.namespace, pod.owners) for pod in pods}
    announced = Counter((owner[move.pod], move.to) for move in moves)
    return (announced & Counter((owner[pod], node) for pod, node in places.items())).total()


def _with_places(snapshot: Snapshot) -> Snapshot:
    """Return the cluster once waiting pods have nodes."""
    plan = schedule(snapshot)
    node_of = {binding.pod: binding.node for binding in plan.bindings}
    node_of |= {pod: claim.name for claim in plan.claims for pod in claim.pods}
    started = [joined(claim, snapshot) for claim in plan.claims]
    pods = tuple(
        replace(pod, node_name=node_of[pod.key], phase="Running") if pod.key in node_of else pod
        for pod in snapshot.pods
    )
    nodes, claims = tuple(node for _, node in started), tuple(claim for claim, _ in started)
    return replace(snapshot, pods=pods, nodes=(*snapshot.nodes, *nodes), node_claims=(*snapshot.node_claims, *claims))


def main() -> int:
    """Read the command line, and print a line for each cluster and strategy."""
    os.environ.update(ARRAY_THREADS)  # before numpy is loaded, as in the tests
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--seeds", default="11,12,13", help="of fragmented clusters (default: %(default)s)")
    parser.add_argument("--strategies", default=f"{LEAST_ALLOCATED},{MOST_ALLOCATED}", help="(default: %(default)s)")
    parser.add_argument("--json", type=Path, default=Path("build/agreement.json"))
    args = parser.parse_args()
    program = build(args.shared)
    if program is None:
        return 0
    courses = []
    for seed in map(int, args.seeds.split(",")):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            workload = fragmented(args.nodes, seed, ec2_catalogue(args.shared / "data"), protected=FEW_PROTECTED)
            snapshot = decoded(written_files(workload, folder / "files"))
            for strategy in args.strategies.split(","):
                options = replace(snapshot.options, scoring=strategy)
                shown = course(f"{args.nodes}-{seed}", replace(snapshot, options=options), program, strategy, folder)
                courses.append(msgspec.to_builtins(shown))
                sys.stdout.write(f"{json.dumps(courses[-1])}\n")
                sys.stdout.flush()
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(courses, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
