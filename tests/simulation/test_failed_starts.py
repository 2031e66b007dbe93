"""Instances that EC2 ends while they start: few are launched, the cluster's objects say why, and pods get what can start.

The rows of docs/reference/launch-errors.md about ends of instances.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.launch.denials import END_RULES, LaunchErrorRule, Remembered
from tests.simulation.test_denied_launches import CALLS_MAX, events, fleet_calls, last_condition, waiting
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

CALLS = {
    "Client.InternalError": (3, 3),
    "Client.InvalidSnapshot": (3, 3),
    "Client.VolumeLimitExceeded": (3, 3),
    "Client.InstanceInitiatedShutdown": (3, 3),
    "Client.": (3, 3),
    "Server.InsufficientInstanceCapacity": (8, 12),
    "Server.SpotInstanceShutdown": (8, 12),
    "Server.SpotInstanceTermination": (8, 12),
    "Server.": (8, 12),
}
"""Code of a rule → CreateFleet calls in ten minutes, for 3 and for 40 pods."""


def ends(code: str, count: int = 1000) -> dict[str, Any]:
    return {"at": "30s", "boot": {"endReason": code, "count": count}}


@pytest.mark.parametrize("replicas", [3, 40])
@pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, id=rule.code, marks=() if rule is END_RULES[0] else pytest.mark.slow) for rule in END_RULES],
)
def test_instances_that_end_are_launched_seldom_and_told(rule: LaunchErrorRule, replicas: int, tmp_path: Path) -> None:
    """Each end woke the next launch."""
    code = f"{rule.code.rstrip('.')}.NotFound" if rule.begins else rule.code
    steps = [ends(code), waiting(deployment(replicas, cpu="12"))]
    result = play(tmp_path, node_pool(), steps=steps, duration="11m")
    assert_lawful(result)
    assert len(fleet_calls(result)) == CALLS[rule.code][replicas > 3] <= CALLS_MAX
    assert code in events(result) or rule.remembered is Remembered.OFFERINGS
    for kind in ("NodePool", "EC2NodeClass") if rule.remembered is Remembered.NODE_CLASS else ():
        assert rule.advice in last_condition(result, kind)
        assert "ec2:CreateFleet" in last_condition(result, kind)


def test_after_the_first_end_one_instance_at_a_time_is_launched(tmp_path: Path) -> None:
    """Each is charged, and counts in quotas of the account."""
    steps = [ends("Client.InternalError"), waiting(deployment(40, cpu="12"))]
    result = play(tmp_path, node_pool(), steps=steps, duration="11m")
    launched = named(result, "instanceLaunched")
    assert 40 < len(launched) <= 40 + CALLS_MAX


def test_once_they_start_every_pod_gets_its_node_and_the_condition_goes(tmp_path: Path) -> None:
    steps = [ends("Client.InternalError", count=41), waiting(deployment(40, cpu="12"))]
    result = play(tmp_path, node_pool(), steps=steps, duration="12m")
    assert_lawful(result)
    assert result.summary["podsScheduled"] == 40
    with pytest.raises(AssertionError):
        last_condition(result, "NodePool")
