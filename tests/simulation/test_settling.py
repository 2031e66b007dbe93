"""How soon a cluster has settled after half of its pods went: nothing waits for the next minute."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from core import labels
from simulator.record import Event
from simulator.run import run
from tests.e2e.peer import objects
from tests.e2e.scenarios.objects import node_class
from tests.simulation.worlds import assert_lawful, deployment, node_pool, play

SETTLED_WITHIN = timedelta(seconds=100)
"""The audit log takes 9 s here, consolidateAfter 10, validation 15, a launch and a boot 25 to 30, the drain 6, and EC2 20 to
end an instance: what is left is ours."""

HALVED_AT = 240


def on_demand(**disruption: Any) -> dict[str, Any]:
    """The NodePool `default` with on-demand nodes alone, which may be replaced."""
    pool = node_pool(disruption={"budgets": [{"nodes": "100%"}], **disruption})
    (requirement,) = pool["spec"]["template"]["spec"]["requirements"]
    requirement["values"] = ["on-demand"]
    return pool


def settled_after(events: tuple[Event, ...], since: timedelta) -> timedelta:
    """From that moment to the last change of the nodes."""
    start = datetime.fromisoformat(events[0].t)
    changes = [
        one
        for one in events
        if one.event in ("instanceLaunched", "instanceTerminated", "nodeDeleted")
        or (one.event == "nodeTainted" and one.fields["key"] == labels.DISRUPTED_TAINT)
    ]
    return datetime.fromisoformat(changes[-1].t) - start - since


@pytest.mark.parametrize("offset", [3, 41])
def test_half_the_pods_go_and_the_cluster_settles_whenever_that_is(tmp_path: Path, offset: int) -> None:
    """It took 120 to 280 s: passes, the checks of commands and their validation each waited for the next minute."""
    at = HALVED_AT + offset
    steps: list[dict[str, Any]] = [
        {"at": f"{at}s", "scale": {"kind": "Deployment", "name": name, "replicas": 4}} for name in ("web", "api")
    ]
    steps.append({"at": f"{at}s", "apply": [on_demand(consolidateAfter="10s")]})
    workloads = [deployment(9, name) for name in ("web", "api")]
    before = on_demand(consolidateAfter="Never")
    result = play(tmp_path, before, *workloads, steps=steps, duration="9m", nodeBootSeconds=20)
    assert result.summary["nodesTerminated"] > 0
    assert settled_after(result.events, timedelta(seconds=at)) <= SETTLED_WITHIN
    assert_lawful(result)


@pytest.mark.slow
@pytest.mark.parametrize("offset", [0, 35])
def test_the_burst_beside_karpenter_settles(tmp_path: Path, offset: int) -> None:
    """300 pods in thirty Deployments with every kind of constraint, as in docs/reference/e2e-peer.md."""
    at, deployments = 300 + offset, objects.workload(300)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": objects.NAMESPACE}}
    steps: list[dict[str, Any]] = [{"at": "120s", "apply": [namespace, *deployments]}]
    for one in deployments:
        half = {"kind": "Deployment", "namespace": objects.NAMESPACE, "name": one["metadata"]["name"]}
        steps.append({"at": f"{at}s", "scale": {**half, "replicas": one["spec"]["replicas"] // 2}})
    pools = objects.pools()
    consolidating = [yaml.safe_load(yaml.safe_dump(pool)) for pool in pools]
    for pool in consolidating:
        pool["spec"]["disruption"]["consolidateAfter"] = objects.CONSOLIDATE_AFTER
    steps.append({"at": f"{at}s", "apply": consolidating})
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([node_class(), *pools]))
    spec = {"duration": f"{at + 330}s", "seed": 1, "nodeBootSeconds": 20, "manifests": ["objects.yaml"], "steps": steps}
    scenario = {"apiVersion": "fleetwright.dev/v1", "kind": "Scenario", "metadata": {"name": "halved"}, "spec": spec}
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(scenario))
    result = run(path)
    assert result.summary["podsPending"] == 0
    assert settled_after(result.events, timedelta(seconds=at)) <= 2 * SETTLED_WITHIN
    assert_lawful(result)
