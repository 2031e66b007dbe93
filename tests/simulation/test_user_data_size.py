"""A NodePool whose nodes' user data is longer than EC2 takes is told so, and nothing else waits for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulator.run import Result
from tests.builders import a_class_manifest
from tests.simulation.test_launch_validation import of_class, wanting
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

SCRIPT = "#!/bin/sh\n" + "#" * 12_000


def a_pool(name: str, labels: int) -> dict[str, Any]:
    """A NodePool of the usual class with so many labels of 60 bytes."""
    pool = of_class(node_pool(), name)
    pool["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "default"
    pool["spec"]["template"]["metadata"]["labels"] |= {f"team-{n:02d}": "x" * 52 for n in range(labels)}
    return pool


def condition(result: Result, name: str) -> dict[str, Any]:
    """The last condition ValidationSucceeded of the NodePool of this name."""
    written = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "NodePool"]
    found = [c for o in written if o["metadata"]["name"] == name for c in o.get("status", {}).get("conditions", ())]
    last: dict[str, Any] = [c for c in found if c["type"] == "ValidationSucceeded"][-1]
    return last


def test_a_node_pool_with_too_many_labels_is_not_launched_from(tmp_path: Path) -> None:
    """EC2 refused its launches, and with them the class paused for all of its NodePools."""
    node_class = a_class_manifest(userData=SCRIPT)
    pods = (wanting(deployment(2, name="a"), "large"), wanting(deployment(2, name="b"), "small"))
    result = play(tmp_path, node_class, a_pool("large", 90), a_pool("small", 1), *pods, duration="10m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 2
    found = condition(result, "large")
    assert found["status"] == "False"
    assert "bytes, EC2 accepts 16384" in found["message"]
    assert condition(result, "small")["status"] == "True"
    denied = [call for call in named(result, "call") if call["call"] == "ec2:CreateFleet" and call["outcome"] != "ok"]
    assert denied == []
    assert [fields for fields in named(result, "decision") if fields.get("reason") == "LaunchDenied"] == []


def test_a_node_pool_that_is_shortened_gets_its_nodes(tmp_path: Path) -> None:
    node_class = a_class_manifest(userData=SCRIPT)
    shortened = {"at": "3m", "apply": [a_pool("large", 2)]}
    pods = wanting(deployment(2, name="a"), "large")
    result = play(tmp_path, node_class, a_pool("large", 90), pods, steps=[shortened], duration="10m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 2
    assert condition(result, "large")["status"] == "True"
