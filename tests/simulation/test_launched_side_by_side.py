"""A plan is asked for as a whole: one request for claims of one shape, side by side, within the rates that EC2 documents."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from core import labels
from simulator.invocation.faults import latency
from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, node_pool, play

NODES = 80
WITHIN_SECONDS = 5


def moments(result: Result, event: str, **fields: str) -> list[datetime]:
    found = (e for e in result.events if e.event == event and fields.items() <= e.fields.items())
    return [datetime.fromisoformat(e.t) for e in found]


def names_at_joining(result: Result) -> list[str]:
    """The claim that each instance's tags name when its node joins."""
    tags: dict[str, dict[str, str]] = {}
    names: list[str] = []
    for event in result.events:
        if event.event in {"instanceLaunched", "instanceTagged"}:
            tags[event.fields["instance"]] = event.fields["tags"]
        elif event.event == "nodeJoined":
            names.append(tags[event.fields["providerID"].rpartition("/")[2]][labels.NODECLAIM])
    return names


def asked_for(tmp_path: Path, nodes: int, duration: str) -> tuple[Result, float]:
    """The result, and the seconds from the plan's first request to its last instance."""
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["test.small"]}
    pool, pods = node_pool(), deployment(nodes, cpu="1500m")
    pool["spec"]["template"]["spec"]["requirements"].append(requirement)
    result = play(tmp_path, pool, pods, duration=duration)
    asked, launched = moments(result, "call", call="ec2:CreateFleet"), moments(result, "instanceLaunched")
    assert len(launched) == nodes
    return result, (max(launched) - min(asked)).total_seconds()


def test_every_node_of_a_plan_is_asked_for_within_seconds(tmp_path: Path) -> None:
    """With one request for each, EC2's rates put the last of 80 nodes 6 seconds after the first."""
    result, seconds = asked_for(tmp_path, NODES, "2m")
    assert seconds <= WITHIN_SECONDS
    assert len(moments(result, "call", call="ec2:CreateFleet")) <= 4
    assert result.summary["podsScheduled"] == NODES
    joined = [event.fields["nodeClaim"] for event in result.events if event.event == "nodeJoined"]
    assert len(set(joined)) == NODES
    assert names_at_joining(result) == joined
    assert_lawful(result)


@pytest.mark.slow
def test_a_thousand_nodes_are_asked_for_within_twenty_seconds(tmp_path: Path) -> None:
    """Whole simulation of 1,000 nodes: it takes minutes."""
    result, seconds = asked_for(tmp_path, 1000, "3m")
    assert len(moments(result, "call", call="ec2:CreateFleet")) <= 25
    assert seconds <= 20
    assert_lawful(result)


@pytest.mark.slow
def test_a_burst_of_3000_pods_is_asked_for_within_five_seconds_of_the_news(tmp_path: Path) -> None:
    """Pods of five sizes in thirty Deployments: some 190 nodes of few shapes. The audit log's own delay comes on top."""
    sizes = ("250m", "500m", "900m", "1300m", "2")
    burst = [deployment(100, f"burst-{n}", cpu=sizes[n % len(sizes)]) for n in range(30)]
    result = play(tmp_path, node_pool(), steps=[{"at": "67s", "apply": burst}], duration="4m")
    last_pod = max(moments(result, "podCreated"))
    news = min(one for one in moments(result, "invocation", function="watch_audit_log") if one > last_pod)
    answered = moments(result, "call", call="ec2:CreateFleet")
    assert (max(answered) - latency("ec2:CreateFleet") - news).total_seconds() <= WITHIN_SECONDS
    assert len(answered) <= 10
    assert result.summary["podsScheduled"] == 3000
    assert_lawful(result)
