"""Plans stay within EC2's vCPU quotas, so EC2 has nothing to refuse, and whoever waits is told the code."""

from __future__ import annotations

from pathlib import Path

from core.model.values.quotas import STANDARD
from core.reasons.pods import PodReason
from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play


def _fleet_calls(result: Result) -> int:
    return sum(call["call"] == "ec2:CreateFleet" for call in named(result, "call"))


def _pod_messages(result: Result) -> str:
    objects = [o["object"] for o in named(result, "objectApplied") if o["kind"] == "Event"]
    return " ".join(o["message"] for o in objects if o["involvedObject"]["kind"] == "Pod")


def _play(tmp_path: Path, quotas: dict[str, int], *capacity_types: str) -> Result:
    pool = node_pool()
    pool["spec"]["template"]["spec"]["requirements"][0]["values"] = list(capacity_types)
    return play(tmp_path, pool, deployment(24, cpu="900m"), vcpuQuotas=quotas)


def test_pods_beyond_the_quota_wait_and_ec2_is_not_asked_for_them(tmp_path: Path) -> None:
    """A refusal would be remembered against everything that shares the quota."""
    result = _play(tmp_path, {STANDARD.on_demand: 16}, "on-demand")
    assert_lawful(result)
    assert not named(result, "launchRefused")
    assert 0 < result.summary["podsPending"] <= 24 - 16
    assert _fleet_calls(result) < 12
    assert STANDARD.on_demand in _pod_messages(result)
    assert result.summary["podsUnschedulable"] == {PodReason.QUOTA_REACHED: result.summary["podsPending"]}


def test_on_demand_capacity_is_bought_where_the_spot_quota_is_spent(tmp_path: Path) -> None:
    """It costs more, but the pods run."""
    result = _play(tmp_path, {STANDARD.spot: 8, STANDARD.on_demand: 64}, "spot", "on-demand")
    assert_lawful(result)
    assert not named(result, "launchRefused")
    assert result.summary["podsPending"] == 0
