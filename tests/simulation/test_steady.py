"""A cluster whose pods stay as they are is left alone, whatever prices and short jobs do (aws#3059, k8s#1293, k8s#2388)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from simulator.run import Result
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play

SETTLED = timedelta(minutes=20)
PRICES_CHANGE_EVERY = timedelta(minutes=15)
NOISE = 0.02
LARGEST = "test.large"


def a_cron_job() -> dict[str, Any]:
    """A pod of forty seconds every five minutes."""
    container = {"name": "main", "image": "tick", "resources": {"requests": {"cpu": "200m", "memory": "128Mi"}}}
    template = {
        "metadata": {"annotations": {"simulate.fleetwright.dev/run-seconds": "40"}},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "tick", "namespace": "default"},
        "spec": {"schedule": "*/5 * * * *", "jobTemplate": {"spec": {"template": template}}},
    }


def steady(folder: Path, lasting: timedelta) -> Result:
    """Two Deployments and a CronJob; once they run, the cheapest type has no capacity and prices waver by 2 % either way."""
    rng = Random(7)  # noqa: S311 - repeatable
    steps: list[dict[str, Any]] = [{"at": "15m", "capacity": {"instanceType": LARGEST, "available": 0}}]
    factors = {(name, kind): 1.0 for name in ("small", "medium", "large") for kind in ("spot", "on-demand")}
    moment = SETTLED
    while moment < SETTLED + lasting:
        for (name, kind), before in factors.items():
            after = 1 + rng.uniform(-NOISE, NOISE)
            price = {"factor": after / before, "instanceType": f"test.{name}", "capacityType": kind}
            steps.append({"at": f"{int(moment.total_seconds())}s", "price": price})
            factors[name, kind] = after
        moment += PRICES_CHANGE_EVERY
    pool = node_pool(disruption={"consolidateAfter": "1m", "budgets": [{"nodes": "100%"}]})
    workloads = [deployment(5, "web"), deployment(7, "api", cpu="700m"), a_cron_job()]
    duration = f"{int((SETTLED + lasting).total_seconds())}s"
    return play(folder, pool, *workloads, steps=steps, duration=duration)


@pytest.mark.parametrize(
    "lasting",
    [timedelta(hours=1), pytest.param(timedelta(days=7), marks=pytest.mark.slow)],
    ids=["an hour", "seven days"],
)
def test_price_noise_a_sold_out_type_and_cron_pods_move_nothing(tmp_path: Path, lasting: timedelta) -> None:
    """Otherwise, nodes of equal worth are exchanged for ever, at the cost of evictions and image pulls."""
    result = steady(tmp_path, lasting)
    figures = {name: result.summary[name] for name in ("virtualSeconds", "podsCreated", "nodesLaunched", "evictions")}
    print(f"{lasting}: {figures}, {result.summary['invocations']['disrupt']} runs of disrupt")  # noqa: T201 - make steady
    assert named(result, "podEvicted") == []
    assert result.summary["nodesTerminated"] == 0
    assert result.summary["podsPending"] == 0
    assert_lawful(result)
