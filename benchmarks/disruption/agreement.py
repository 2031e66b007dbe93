"""`python -m benchmarks.disruption.agreement`: which share of the announced moves hold, in simulated clusters that shrink.

Services grow, then shrink, and leave nodes half empty; all functions run in the embedded world until nothing more goes. A move
holds if the pod that follows the evicted one comes to the announced node. Equal pods are interchangeable.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from adapters.store import COMMANDS
from benchmarks.cluster_objects import NODE_CLASS, deployment
from core.api.objects import JsonObject
from core.disruption.disruption_pass import DisruptionPass, fleet_price
from core.disruption.fleet_floor import fleet_floor
from core.interpreter import collector_paused
from core.lifecycle.commands import names_of_replacements
from core.lifecycle.records import CommandRecord
from core.model.values.quantity import dollars
from simulator.aws.dynamodb.table import Key
from simulator.aws.installation import read_region
from simulator.clock import VirtualClock
from simulator.outcome import kind_of_partition, record_of
from simulator.record import Event, Recorder
from simulator.run import seeded
from simulator.scenario import read_scenario
from simulator.world import QUICK, World, open_world

START: Final = "2026-11-16T00:00:00Z"
SHRINKS_AT: Final = timedelta(minutes=20)
PLAYED_FOR: Final = timedelta(hours=3)
SAMPLED_EVERY: Final = timedelta(minutes=1)
PROMPT: Final = timedelta(seconds=2)
"""A pod that waits for longer found no node at first."""

CPUS: Final = ("100m", "250m", "400m", "500m", "1", "1500m")
MEMORY: Final = ("256Mi", "512Mi", "1Gi", "2Gi", "3Gi")
LEFT: Final = (0.2, 0.7)
"""Shares of a service's pods of which one is left after it shrinks."""


class Agreement(msgspec.Struct, frozen=True, kw_only=True):
    """What a cluster shows.

    Attributes:
        moves: The announced moves of started commands whose pods were evicted and came up again.
        held: Those of them that came to the announced node.
        evictions: Of all pods.
        waited: Pods that the scheduler found no node for after the cluster began to shrink.
        launched: Instances launched after the cluster began to shrink.
        before, after, bound: Dollars an hour when the cluster begins to shrink, at the end, and the proven minimum then.
    """

    moves: int
    held: int
    evictions: int
    waited: int
    launched: int
    before: float
    after: float
    bound: float
    dollars: float


class Watching:
    """Listens to a world: which moves commands announce, and where pods come up."""

    def __init__(self, world: World) -> None:
        self._announced: dict[str, str] = {}
        self._expected: dict[str, Counter[str]] = {}
        self._successors: dict[str, int] = {}
        self._node_of_claim: dict[str, str] = {}
        self._created: dict[str, datetime] = {}
        self._world = world
        self.moves = self.held = self.evictions = self.waited = self.launched = 0
        world.recorder.listen(self.see)
        world.account.table.listen(self._row_written)

    def _row_written(self, key: Key, item: dict[str, Any] | None) -> None:
        if item is not None and kind_of_partition(key.partition) == COMMANDS:
            self._announce(msgspec.convert(record_of(item), CommandRecord))

    def _announce(self, record: CommandRecord) -> None:
        named = names_of_replacements(record.id, record.command)
        planned = {claim.name: name for claim, name in zip(record.command.replacements, named, strict=True)}
        for move in record.command.moves:
            self._announced[move.pod] = planned.get(move.to, move.to)

    def see(self, event: Event) -> None:
        """Note an event."""
        fields = event.fields
        if event.event == "nodeJoined":
            self._node_of_claim[fields["nodeClaim"]] = fields["node"]
            self.launched += 1
        elif event.event == "podEvicted":
            self.evictions += 1
            to = self._announced.pop(fields["pod"], None)
            owner = _owner(fields["pod"])
            if to is not None:
                self._expected.setdefault(owner, Counter())[to] += 1
                self._successors[owner] = self._successors.get(owner, 0) + 1
        elif event.event == "podCreated":
            self._created[fields["pod"]] = self._world.clock.now()
        elif event.event == "podBound":
            self._bound(fields["pod"], fields["node"])

    def _bound(self, pod: str, node: str) -> None:
        owner = _owner(pod)
        created = self._created.pop(pod, None)
        self.waited += created is not None and self._world.clock.now() - created > PROMPT
        if not self._successors.get(owner):
            return
        self._successors[owner] -= 1
        self.moves += 1
        expected = self._expected[owner]
        for to in list(expected):
            if expected[to] and self._node_of_claim.get(to, to) == node:
                expected[to] -= 1
                self.held += 1
                return


def _owner(pod: str) -> str:
    return pod.rpartition("-")[0]


def played(path: Path, seed: int) -> Agreement:
    """Play the scenario to its end."""
    described = read_scenario(path)
    region, clock = read_region(described.catalogue_file), VirtualClock(described.start)
    with seeded(seed), open_world(described, region, seed, Recorder(clock), clock, QUICK) as world:
        world.play([])
        clock.run_until(described.start + SHRINKS_AT - SAMPLED_EVERY)
        before, _ = _prices(world)
        watching = Watching(world)
        clock.run_until(described.start + described.duration)
        after, bound = _prices(world)
        world.finish()
        return Agreement(
            moves=watching.moves, held=watching.held, evictions=watching.evictions, waited=watching.waited,
            launched=watching.launched, before=before, after=after, bound=bound, dollars=world.meter.dollars,
        )  # fmt: skip


def _prices(world: World) -> tuple[float, float]:
    with collector_paused():
        snapshot = world.application().shared.observer.observe().snapshot
        return dollars(fleet_price(snapshot)), dollars(fleet_floor(DisruptionPass(snapshot)))


def scenario(folder: Path, seed: int, services: int) -> Path:
    """Write a scenario into `folder` and return its path."""
    rng = Random(seed)  # noqa: S311 - repeatable
    sizes = {f"service-{number:02}": rng.randint(4, 24) for number in range(services)}
    objects = [NODE_CLASS, _NODE_POOL]
    objects += [
        deployment(name, count, cpu=rng.choice(CPUS), memory=rng.choice(MEMORY)) for name, count in sizes.items()
    ]
    steps = [
        {
            "at": f"{SHRINKS_AT // timedelta(minutes=1)}m",
            "scale": {"kind": "Deployment", "name": name, "replicas": max(1, round(count * rng.uniform(*LEFT)))},
        }
        for name, count in sorted(sizes.items())
    ]
    spec = {
        "start": START, "duration": f"{PLAYED_FOR // timedelta(minutes=1)}m", "seed": seed,
        "manifests": ["objects.yaml"], "steps": steps,
    }  # fmt: skip
    whole = {"apiVersion": "fleetwright.dev/v1", "kind": "Scenario", "metadata": {"name": "shrinking"}, "spec": spec}
    (folder / "objects.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    path = folder / "scenario.yaml"
    path.write_text(json.dumps(whole))
    return path


_NODE_POOL: Final[JsonObject] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "default"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                "requirements": [
                    {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]},
                    {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m7g", "c7g", "r7g"]},
                    {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Lt", "values": ["5"]},
                ],
                "expireAfter": "Never",
            }
        },
        "disruption": {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "1m",
            "budgets": [{"nodes": "10%"}],
        },
    },
}


def main() -> None:
    """Play the clusters and print a line for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.disruption.agreement", description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="how many clusters (default: %(default)s)")
    parser.add_argument("--first", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument("--services", type=int, default=40)
    arguments = parser.parse_args()
    for seed in range(arguments.first, arguments.first + arguments.seeds):
        with tempfile.TemporaryDirectory() as folder:
            print(seed, played(scenario(Path(folder), seed, arguments.services), seed), flush=True)


if __name__ == "__main__":
    main()
