"""A changed EC2NodeClass is not ready until EC2 agrees to launch from it; only its own NodePools wait meanwhile."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from simulator.run import Result
from tests.builders import a_class_manifest
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play


def condition(result: Result, name: str, kind: str = "ValidationSucceeded") -> dict[str, Any]:
    """The last condition of the EC2NodeClass of this name."""
    written = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "EC2NodeClass"]
    found = [c for o in written if o["metadata"]["name"] == name for c in o.get("status", {}).get("conditions", ())]
    last: dict[str, Any] = [c for c in found if c["type"] == kind][-1]
    return last


def of_class(pool: dict[str, Any], name: str) -> dict[str, Any]:
    """The NodePool with another class and name, for pods that ask for its label."""
    own = copy.deepcopy(pool)
    own["metadata"]["name"] = name
    own["spec"]["template"]["spec"]["nodeClassRef"]["name"] = name
    own["spec"]["template"].setdefault("metadata", {})["labels"] = {"pool": name}
    return own


def wanting(pods: dict[str, Any], pool: str) -> dict[str, Any]:
    """The Deployment with a selector of this pool."""
    pods["spec"]["template"]["spec"]["nodeSelector"] = {"pool": pool}
    return pods


def test_a_class_that_ec2_denies_blocks_its_own_node_pools_only(tmp_path: Path) -> None:
    """Its first launch would have failed, and again, while its pods wait."""
    broken = a_class_manifest("broken", role=None, instanceProfile="gone")
    pods = (wanting(deployment(2, name="a"), "broken"), wanting(deployment(2, name="b"), "sound"))
    sound = of_class(node_pool(), "sound")
    sound["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "default"
    result = play(tmp_path, a_class_manifest(), broken, of_class(node_pool(), "broken"), sound, *pods, duration="5m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 2
    found = condition(result, "broken")
    assert (found["status"], found["reason"]) == ("False", "InvalidParameterValue")
    assert "Invalid IAM Instance Profile name 'gone'" in found["message"]
    assert condition(result, "default", "Ready")["status"] == "True"


def test_a_class_is_ready_once_ec2_agrees(tmp_path: Path) -> None:
    """A permission that was missing at first needs no edit of the class."""
    fault = {
        "call": "ec2:RunInstances",
        "kind": "denied",
        "code": "UnauthorizedOperation",
        "as": "exception",
        "for": "3m",
    }
    result = play(tmp_path, node_pool(), deployment(2), steps=[{"at": 0, "fault": fault}], duration="12m")
    assert_lawful(result)
    warnings = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "Event"]
    assert "RunInstances (DryRun): UnauthorizedOperation" in " ".join(event["message"] for event in warnings)
    assert condition(result, "default")["status"] == "True"
    assert result.summary["podsScheduled"] == 2
