"""A class that says that its nodes get prefixes of addresses has nodes whose kubelets admit as many pods as were planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders import a_class_manifest
from tests.simulation.worlds import assert_lawful, deployment, node_pool, play


@pytest.mark.parametrize(("says", "nodes"), [("true", 1), ("false", 3)])
def test_many_small_pods_share_a_node_with_prefixes(says: str, nodes: int, tmp_path: Path) -> None:
    """Without, each m5.large is full at 29 pods, of which the planner knows: 80 pods take three nodes instead of one."""
    own = a_class_manifest(metadata={"annotations": {"fleetwright.dev/prefix-delegation": says}})
    pool = node_pool(disruption={"consolidateAfter": "Never"})
    large = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}
    pool["spec"]["template"]["spec"]["requirements"].append(large)
    pods = deployment(80, cpu="10m")
    pods["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["memory"] = "32Mi"
    result = play(tmp_path, own, pool, pods, catalog=None, duration="8m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 80
    assert result.summary["nodesAtEnd"] == nodes
