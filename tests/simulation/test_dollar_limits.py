"""A NodePool's limit in dollars an hour is never overshot: not by bursts, launches under way, replacements, or several runs."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

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


@pytest.mark.parametrize("seed", range(4))
def test_the_limit_is_never_overshot(seed: int, tmp_path: Path) -> None:
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
    result = play(tmp_path, capped(), *workloads, steps=steps, duration="26m", seed=seed, nodeBootSeconds=30)
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
