"""One claim, one instance, however many run after it at once. The same world with a broken launcher must break the law."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from adapters.aws.ec2.fleet import Ec2Cloud
from adapters.ports import Launched
from core.model.launch_order import LaunchOrder
from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

NODES = 26

APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


def doubled(folder: Path, *, lost_answers: int = 40) -> Result:
    """A pod a node, every message twice and at the same time, and EC2's first answers to launches are lost.

    The pods come when EC2 has agreed to the EC2NodeClass.
    """
    pods = deployment(NODES)
    pods["spec"]["template"]["spec"]["affinity"] = APART
    lost = {"call": "ec2:CreateFleet", "kind": "lostReply", "count": lost_answers}
    twice = {"kind": "duplicate", "count": 2000}
    steps: list[dict[str, Any]] = [
        {"at": "1m", "events": twice},
        {"at": "1m", "fault": lost},
        {"at": "1m", "apply": [pods]},
    ]
    return play(folder, node_pool(), steps=steps, duration="7m")


def test_two_executors_of_one_claim_launch_one_instance(tmp_path: Path) -> None:
    """If this failed, a message that comes twice would be paid for twice."""
    result = doubled(tmp_path)
    assert result.summary["nodesAtEnd"] == NODES
    assert len(named(result, "instanceLaunched")) == NODES
    assert_lawful(result)


def test_a_launch_with_a_token_of_its_own_breaks_the_law(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, the test above would pass whatever the launcher did."""
    launch = Ec2Cloud.launch

    def twice(cloud: Ec2Cloud, order: LaunchOrder) -> Launched:
        launch(cloud, msgspec.structs.replace(order, token=f"{order.token}-again"))
        return launch(cloud, order)

    monkeypatch.setattr(Ec2Cloud, "launch", twice)
    assert doubled(tmp_path, lost_answers=1).summary["doubleLaunches"] > 0


def silent(folder: Path) -> Result:
    """A shared launch's answer is lost, and EC2 answers the repeated token with the fleet's id alone."""
    pods = deployment(6)
    pods["spec"]["template"]["spec"]["affinity"] = APART
    steps: list[dict[str, Any]] = [
        {"at": "1m", "fault": {"call": "ec2:CreateFleet", "kind": "lostReply", "count": 1}},
        {"at": "1m", "apply": [pods]},
    ]
    return play(folder, node_pool(), steps=steps, duration="25m", aws={"repeatedLaunch": "silent"})


def test_a_lost_answer_that_is_not_repeated_launches_nothing_twice(tmp_path: Path) -> None:
    result = silent(tmp_path)
    assert len(named(result, "instanceLaunched")) == 6
    assert_lawful(result)
