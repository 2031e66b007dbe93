"""`python -m benchmarks.disruption.parts`: a decision in parts, with each step in a process of its own, as functions take them.

The cluster is drawn fleets of 500 nodes each, none of whose pods may use another's nodes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from benchmarks.commit import commit
from benchmarks.disruption.fragmented import fragmented
from benchmarks.disruption.teams import of_team, together
from benchmarks.files import Files, written
from benchmarks.measure import decoded, peak_bytes
from benchmarks.workloads.ec2 import ec2_catalogue
from core import codec
from core.api.objects import JsonObject
from core.disruption import disrupt
from core.disruption.decision import joined_plans, parts_of
from core.interpreter import collector_paused
from core.model.plan import DisruptionPlan
from core.model.snapshot import Snapshot
from core.scheduling import Planner
from lambdas.cluster_parts import PartsStore

TEAM: Final = 500
"""Nodes of a drawn fleet."""

RUN: Final = "run"
SECONDS_MAX: Final = 900
"""A step that takes longer is ended: so long may a function run."""


class Folder:
    """Objects as files (`adapters.ports.ObjectStore`)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, key: str, body: bytes) -> None:
        """Write a file."""
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def get(self, key: str) -> bytes:
        """Read a file."""
        return (self._folder / key).read_bytes()


def main() -> None:
    """Measure clusters of these sizes, or one step of one of them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="+", default=[2000, 5000])
    parser.add_argument("--part-nodes", type=int, default=2500)
    parser.add_argument("--whole", action="store_true", help="also decide about the whole in one process")
    parser.add_argument("--work", type=Path, default=Path("build/bench-parts"))
    parser.add_argument("--data", type=Path, default=Path("build/bench/data"))
    parser.add_argument("--json", type=Path, default=Path("build/bench-parts.json"))
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--part", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(_measured(arguments)))
        return
    document = {
        "commit": commit(),
        "partNodes": arguments.part_nodes,
        "clusters": [_cluster(n, arguments) for n in arguments.nodes],
    }
    arguments.json.write_text(json.dumps(document, indent=1))
    print(json.dumps(document, indent=1))


def _cluster(nodes: int, arguments: argparse.Namespace) -> JsonObject:
    work = arguments.work / str(nodes)
    store = PartsStore(Folder(work), "drawn")
    store.write(RUN, _drawn(nodes, arguments), ())

    def step(name: str, part: int = 0) -> JsonObject:
        options = ["--step", name, "--part", str(part), "--part-nodes", str(arguments.part_nodes), "--work", str(work)]
        command = [sys.executable, "-m", "benchmarks.disruption.parts", *options]
        try:
            done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=SECONDS_MAX)  # noqa: S603 - ours
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            return {"failed": str(error)[:200]}
        print(nodes, name, part, done.stdout.strip(), file=sys.stderr, flush=True)
        answer: JsonObject = json.loads(done.stdout)
        return answer

    divided = step("divide")
    numbers = range(divided.get("parts", 0))
    figures = {"nodes": nodes, "divide": divided, "decide": [step("decide", n) for n in numbers], "join": step("join")}
    return figures | ({"whole": step("whole")} if arguments.whole else {})


def _drawn(nodes: int, arguments: argparse.Namespace) -> Snapshot:
    catalogue = ec2_catalogue(arguments.data)
    teams = []
    for number in range(nodes // TEAM):
        folder = arguments.work / f"team-{number}"
        if not folder.exists():
            written(fragmented(TEAM, number + 1, catalogue), folder)
        teams.append(of_team(decoded(Files(folder)), f"team{number}"))
    return together(teams)


def _measured(arguments: argparse.Namespace) -> JsonObject:
    """Take one step; return its processor time and the peak memory of the process."""
    store = PartsStore(Folder(arguments.work), "drawn")
    figures = STEPS[arguments.step](store, arguments)
    return {**figures, "cpuSeconds": round(time.process_time(), 1), "peakMiB": peak_bytes() >> 20}


def _divide(store: PartsStore, arguments: argparse.Namespace) -> JsonObject:
    whole_snapshot = store.whole(RUN)
    options = msgspec.structs.replace(whole_snapshot.options, part_nodes=arguments.part_nodes)
    snapshot = msgspec.structs.replace(whole_snapshot, options=options)
    with collector_paused():
        parts, undivided = parts_of(snapshot, Planner(snapshot))
        store.write(RUN, snapshot, parts)
    return {"parts": len(parts), "undivided": undivided, "pods": len(snapshot.pods)}


def _decide(store: PartsStore, arguments: argparse.Namespace) -> JsonObject:
    part = store.part(RUN, arguments.part)
    with collector_paused():
        plan = disrupt(part)
    store.keep(RUN, arguments.part, plan, ())
    return {"nodes": len(part.nodes), "commands": len(plan.commands)}


def _join(store: PartsStore, arguments: argparse.Namespace) -> JsonObject:
    del arguments
    whole_snapshot, stored = store.whole(RUN), list[DisruptionPlan]()
    while (plan := _plan(store, len(stored))) is not None:
        stored.append(plan)
    plan = joined_plans(whole_snapshot, stored)
    written = codec.encode_disruption_plan(plan)
    return {"commands": len(plan.commands), "bytes": len(written), "after": plan.cost.after}


def _plan(store: PartsStore, number: int) -> DisruptionPlan | None:
    try:
        return codec.decode_disruption_plan(store.decision(RUN, number).plan.encode())
    except FileNotFoundError:
        return None


def _whole(store: PartsStore, arguments: argparse.Namespace) -> JsonObject:
    del arguments
    whole_snapshot = store.whole(RUN)
    options = msgspec.structs.replace(whole_snapshot.options, part_nodes=None)
    with collector_paused():
        plan = disrupt(msgspec.structs.replace(whole_snapshot, options=options))
    return {"commands": len(plan.commands), "after": plan.cost.after}


STEPS: Final[dict[str, Callable[[PartsStore, argparse.Namespace], JsonObject]]] = {
    "divide": _divide,
    "decide": _decide,
    "join": _join,
    "whole": _whole,
}


if __name__ == "__main__":
    main()
