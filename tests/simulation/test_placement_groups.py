"""Placement groups through the real handlers: resolved, told, launched into, and their partitions on nodes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from core import labels
from simulator.run import Result, run
from tests.builders import a_class_manifest
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, write

PARTITIONS = {"1", "2", "3"}


def play_in_ec2(folder: Path, group: str, pods: dict[str, Any]) -> Result:
    """Play with EC2's own types: only those know which groups they may be in."""
    pool = node_pool()
    family = {"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m5", "t3"]}
    pool["spec"]["template"]["spec"]["requirements"].append(family)
    node_class = a_class_manifest(placementGroupSelector={"name": group})
    path = write(folder, node_class, pool, pods, steps=[], duration="8m")
    scenario = yaml.safe_load(path.read_text())
    del scenario["spec"]["catalog"]
    path.write_text(yaml.safe_dump(scenario))
    return run(path)


def spread(pods: dict[str, Any]) -> dict[str, Any]:
    """The Deployment with its pods spread over partitions."""
    constraint = {
        "maxSkew": 1,
        "topologyKey": labels.PLACEMENT_GROUP_PARTITION,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": pods["spec"]["selector"],
    }
    pods["spec"]["template"]["spec"]["topologySpreadConstraints"] = [constraint]
    return pods


def last(result: Result, kind: str) -> dict[str, Any]:
    found: dict[str, Any] = [o["object"] for o in named(result, "objectApplied") if o["kind"] == kind][-1]
    return found


def conditions(result: Result) -> dict[str, dict[str, Any]]:
    return {c["type"]: c for c in last(result, "EC2NodeClass")["status"]["conditions"]}


def partitions(result: Result) -> list[str]:
    """The partitions of all nodes that were opened."""
    nodes = {
        o["name"]: o["object"]["metadata"]["labels"] for o in named(result, "objectApplied") if o["kind"] == "Node"
    }
    return sorted(own[labels.PLACEMENT_GROUP_PARTITION] for own in nodes.values())


def test_pods_are_spread_over_the_partitions_of_a_group(tmp_path: Path) -> None:
    """Racks of EC2 fail one at a time; what is spread over partitions survives that."""
    result = play_in_ec2(tmp_path, "partition", spread(deployment(3)))
    assert_lawful(result)
    assert set(partitions(result)) == PARTITIONS
    assert result.summary["podsScheduled"] == 3
    assert conditions(result)["PlacementGroupReady"]["status"] == "True"


def test_a_node_carries_the_partition_that_ec2_chose(tmp_path: Path) -> None:
    """Pods may select on it later, and drift compares it with the NodePool's requirements."""
    result = play_in_ec2(tmp_path, "partition", deployment(2, cpu="3"))
    assert_lawful(result)
    assert partitions(result)
    assert set(partitions(result)) <= PARTITIONS


def test_only_types_of_the_groups_strategy_are_launched(tmp_path: Path) -> None:
    """EC2 refuses a burstable type in a cluster group, and each refusal pauses the class."""
    result = play_in_ec2(tmp_path, "cluster", deployment(2))
    assert_lawful(result)
    assert {found["instanceType"].partition(".")[0] for found in named(result, "instanceLaunched")} == {"m5"}


@pytest.mark.parametrize(("group", "said"), [("typo", "does not exist"), ("gone", "deleting, not available")])
def test_a_class_whose_group_is_not_there_says_so_and_launches_nothing(group: str, said: str, tmp_path: Path) -> None:
    """Each launch was denied, and asked for again after each pause."""
    result = play_in_ec2(tmp_path, group, deployment(2))
    assert_lawful(result)
    found = conditions(result)
    assert found["PlacementGroupReady"]["reason"] == "PlacementGroupNotFound"
    assert said in found["PlacementGroupReady"]["message"]
    assert found["Ready"]["status"] == "False"
    assert [call for call in named(result, "call") if call["call"] == "ec2:CreateFleet"] == []
