"""Limits in dollars an hour, of a NodePool or shared by several, are never overshot.

Not by bursts, launches under way, replacements, or several runs.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from core.labels import SHARED_LIMITS
from core.model.values.quantity import HOURLY
from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

CAP = 0.5
"""Dollars an hour: five nodes of `test.small` on demand, at most."""


def highest_cost(result: Result) -> float:
    """Return the most that running instances cost an hour at any moment, from the world's own record."""
    prices: dict[str, float] = {}
    most = 0.0
    for event in result.events:
        if event.event == "instanceLaunched":
            prices[event.fields["instance"]] = event.fields["price"]
            most = max(most, sum(prices.values()))
        elif event.event == "instanceTerminated":
            prices.pop(event.fields["instance"], None)
    return most


def capped() -> dict[str, Any]:
    return node_pool(limits={HOURLY: str(CAP)})


def sharing() -> tuple[dict[str, Any], ...]:
    """Two NodePools that together may cost as much as `capped`; each launches one workload's nodes in a zone of its own."""
    pools = []
    for name, zone in (("default", "zone-a"), ("other", "zone-b")):
        pool = node_pool()
        pool["metadata"] = {"name": name, "annotations": {SHARED_LIMITS: f"all:dollars-per-hour={CAP}"}}
        zones = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
        pool["spec"]["template"]["spec"]["requirements"].append(zones)
        pools.append(pool)
    return tuple(pools)


@pytest.mark.parametrize("pools", [(capped(),), sharing()], ids=["one", "shared"])
@pytest.mark.parametrize("seed", range(4))
def test_the_limit_is_never_overshot(seed: int, pools: tuple[dict[str, Any], ...], tmp_path: Path) -> None:
    """Bursts, changes and lost messages at random; prices count at their worst until a claim is launched."""
    rng = Random(seed)  # noqa: S311 - repeatable, not secret
    steps: list[dict[str, Any]] = []
    for minute in range(2, 22, 3):
        target = {"kind": "Deployment", "name": rng.choice(("web", "api")), "replicas": rng.randint(0, 14)}
        steps.append({"at": f"{minute}m", "scale": target})
    steps.append({"at": "7m", "fault": {"call": "ec2:CreateFleet", "kind": "lostReply", "count": 2}})
    steps.append({"at": "9m", "events": {"kind": "duplicate", "count": 6}})
    steps.append({"at": "12m", "interrupt": {"zone": "zone-a", "fraction": 0.5}})
    steps.sort(key=lambda step: int(step["at"].removesuffix("m")))
    workloads = [deployment(6, name) for name in ("web", "api")]
    if len(pools) > 1:
        for workload, zone in zip(workloads, ("zone-a", "zone-b"), strict=True):
            workload["spec"]["template"]["spec"]["nodeSelector"] = {"topology.kubernetes.io/zone": zone}
    result = play(tmp_path, *pools, *workloads, steps=steps, duration="26m", seed=seed, nodeBootSeconds=30)
    assert 0 < highest_cost(result) <= CAP + 1e-9
    assert_lawful(result)


def test_pods_beyond_the_limit_are_told_which_one_and_what_would_free_it(tmp_path: Path) -> None:
    result = play(tmp_path, capped(), deployment(40), duration="6m", nodeBootSeconds=30)
    assert result.summary["podsPending"] > 0
    assert result.summary["podsUnschedulable"].get("BudgetExhausted") == result.summary["podsPending"]
    events = [fields["object"]["message"] for fields in named(result, "objectApplied") if fields["kind"] == "Event"]
    told = [message for message in events if message.startswith("BudgetExhausted")]
    assert told
    assert f"its limit {HOURLY} leaves" in told[0]
    assert "a node comes once others that cost" in told[0]
    assert highest_cost(result) <= CAP + 1e-9
