"""A plan is asked for as a whole: EC2 takes a second and a half for each request, and none waits for another."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, node_pool, play

PODS = 240
WITHIN_SECONDS = 5
SIZES = {"test.small", "test.medium"}


def moments(result: Result, event: str, **fields: str) -> list[datetime]:
    found = (e for e in result.events if e.event == event and fields.items() <= e.fields.items())
    return [datetime.fromisoformat(e.t) for e in found]


def test_every_node_of_a_plan_is_asked_for_within_seconds(tmp_path: Path) -> None:
    """One after the other, the last of 120 nodes would have been asked for after three minutes."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": sorted(SIZES)}
    pool = node_pool()
    pool["spec"]["template"]["spec"]["requirements"].append(requirement)
    result = play(tmp_path, pool, deployment(PODS), duration="3m")
    asked = moments(result, "call", call="ec2:CreateFleet")
    assert len(asked) >= PODS // 4
    assert (max(asked) - min(asked)).total_seconds() <= WITHIN_SECONDS
    assert result.summary["podsScheduled"] == PODS
    assert_lawful(result)
