"""The API requests of an idle cluster, and that a change ends the rest soon."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Literal

import pytest

from core import labels
from simulator.aws.installation import read_region
from simulator.clock import VirtualClock
from simulator.events import Pump
from simulator.record import Recorder
from simulator.run import Result, seeded
from simulator.scenario import read_scenario
from simulator.world import open_world
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play, write

SETTLED: timedelta = timedelta(minutes=30)
STEADY: timedelta = timedelta(minutes=30)
REQUESTS_A_MINUTE = 3
FOR_CALENDARS = 4
"""Two functions ask in each quarter of an hour whether there are Calendars."""
A_NODE_EACH = "12"
"""CPUs of a pod that fills the largest type."""


def requests(path: Path, *, has_audit_log: bool) -> tuple[Counter[tuple[str, str]], int]:
    """Requests to the API server by function and call in the steady half hour, and how many nodes there are."""
    scenario, counts = read_scenario(path), Counter[tuple[str, str]]()
    clock = VirtualClock(scenario.start)
    region, recorder = read_region(scenario.catalogue_file), Recorder(clock)
    with seeded(1), open_world(scenario, region, 1, recorder, clock) as world, pytest.MonkeyPatch.context() as patched:
        if not has_audit_log:
            patched.setattr(Pump, "audit", lambda *_: None)

        def count(call: str, when: Literal["before", "after"]) -> None:
            if when == "before" and clock.now() >= scenario.start + SETTLED:
                counts[world.sandboxes.running(), call] += 1

        world.cluster.api.on_fault_point(count)
        world.play([])
        world.clock.run_until(scenario.start + SETTLED + STEADY)
        world.finish()
        return counts, world.summary.figures({})["nodesAtEnd"]


@pytest.mark.parametrize("has_audit_log", [True, False])
@pytest.mark.parametrize("nodes", [0, 5])
def test_an_idle_cluster_is_asked_three_times_a_minute_at_most(tmp_path: Path, nodes: int, has_audit_log: bool) -> None:
    """Otherwise, many clusters that do nothing load their API servers, and fill their audit logs, for nothing."""
    path = write(tmp_path, node_pool(), deployment(nodes, cpu=A_NODE_EACH), steps=[], duration="60m")
    counts, present = requests(path, has_audit_log=has_audit_log)
    assert present == nodes
    by_function: Counter[str] = Counter()
    for (function, _), number in counts.items():
        by_function[function] += number
    assert by_function["provision"] >= 30
    assert by_function["reconcile"] > 0
    assert counts.total() <= REQUESTS_A_MINUTE * 30 + FOR_CALENDARS, sorted(counts.items())


def minutes(result: Result, event: str, **fields: str) -> list[float]:
    """When events happened, in minutes from the start."""
    start = datetime.fromisoformat(result.events[0].t)
    found = [e for e in result.events if e.event == event and fields.items() <= e.fields.items()]
    return [(datetime.fromisoformat(e.t) - start) / timedelta(minutes=1) for e in found]


def test_pods_that_go_are_noticed_in_a_long_resync_period(tmp_path: Path) -> None:
    """Otherwise, a node that nobody needs is paid for half an hour longer."""
    steps = [{"at": "50m", "scale": {"kind": "Deployment", "name": "web", "replicas": 1}}]
    result = play(tmp_path, node_pool(), deployment(3, cpu=A_NODE_EACH), steps=steps, duration="60m")
    tainted = minutes(result, "nodeTainted", key=labels.DISRUPTED_TAINT)
    assert len(tainted) == 2
    assert max(tainted) < 50 + 5
    assert_lawful(result)


def test_a_changed_node_pool_is_noticed_in_a_long_resync_period(tmp_path: Path) -> None:
    """Otherwise, nodes keep an old template for half an hour."""
    changed = node_pool()
    changed["spec"]["template"]["metadata"] = {"labels": {"team": "blue"}}
    steps = [{"at": "50m", "apply": [changed]}]
    result = play(tmp_path, node_pool(), deployment(1, cpu=A_NODE_EACH), steps=steps, duration="65m")
    joined = minutes(result, "nodeJoined")
    assert len(joined) == 2
    assert joined[-1] < 50 + 5
    assert_lawful(result)


def test_a_node_that_somebody_deletes_is_noticed_in_a_long_resync_period(tmp_path: Path) -> None:
    """Otherwise, its instance runs unnoticed until the next observation."""
    before = play(tmp_path, node_pool(), deployment(2, cpu=A_NODE_EACH), duration="3m")
    node = named(before, "nodeJoined")[0]["node"]
    steps = [{"at": "50m", "delete": [{"kind": "Node", "name": node}]}]
    result = play(tmp_path, node_pool(), deployment(2, cpu=A_NODE_EACH), steps=steps, duration="62m")
    assert (result.summary["nodesTerminated"], result.summary["podsPending"]) == (1, 0)
    assert_lawful(result)
