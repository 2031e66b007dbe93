"""What users of node provisioners reported, played through all functions; k8s# and aws# are Karpenter's two repositories."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play


def a_cron_job(cpu: str) -> dict[str, Any]:
    """A pod of forty seconds every five minutes."""
    container = {"name": "main", "image": "tick", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
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


def test_the_node_of_cron_pods_stays_between_their_runs(tmp_path: Path) -> None:
    """A node was launched every five minutes and removed again, although consolidateAfter was longer (aws#3059, k8s#1921)."""
    pool = node_pool(disruption={"consolidateAfter": "6m", "budgets": [{"nodes": "100%"}]})
    result = play(tmp_path, pool, a_cron_job("3"), duration="31m")
    assert len(named(result, "podFinished")) >= 5
    assert (result.summary["nodesLaunched"], result.summary["nodesTerminated"]) == (1, 0)
    assert_lawful(result)


def test_a_full_subnet_sends_nodes_to_the_other_zone(tmp_path: Path) -> None:
    """Launches into a subnet without addresses were repeated, and pods waited beside a zone with room (aws#5234)."""
    full = {"at": "0s", "subnet": {"zone": "zone-a", "freeAddresses": 0}}
    web = deployment(6, "web", "1500m")
    spread = {
        "maxSkew": 6,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    web["spec"]["template"]["spec"]["topologySpreadConstraints"] = [spread]
    result = play(tmp_path, node_pool(), web, steps=[full], duration="15m")
    assert result.summary["podsPending"] == 0
    assert {one["zone"] for one in named(result, "instanceLaunched")} == {"zone-b"}
    assert_lawful(result)


@pytest.mark.ci
def test_many_pods_of_a_sold_out_type_ask_for_it_seldom(tmp_path: Path) -> None:
    """Six hundred accelerators were asked for thousands of times an hour while there were none (k8s#3198)."""
    offerings, minutes = 4, 18
    few = [{"at": "0s", "capacity": {"instanceType": "test.large", "available": 2}}]
    result = play(tmp_path, node_pool(), deployment(14, "train", "12"), steps=few, duration=f"{minutes}m")
    refused = [one for one in result.events if one.event == "launchRefused"]
    start = datetime.fromisoformat(result.events[0].t)
    later = [one for one in refused if datetime.fromisoformat(one.t) - start > timedelta(minutes=1)]
    assert result.summary["nodesLaunched"] == 2 * offerings
    assert len(later) <= offerings * (minutes // 3), "a refused offering is left alone for three minutes and more"
    assert [one for one in result.decisions if one["reason"] == "NoOfferingAvailable"]


@pytest.mark.ci
def test_nodes_of_one_age_do_not_expire_at_once(tmp_path: Path) -> None:
    """All nodes of a morning went in the same minute of a later day (aws#1884).

    Each goes up to twelve minutes early. Twelve draws lie within four minutes of each other once in 20,000 times.
    """
    nodes = 12
    pool = node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    pool["spec"]["template"]["spec"]["expireAfter"] = "2h"
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["test.small"]}
    pool["spec"]["template"]["spec"]["requirements"].append(requirement)
    result = play(tmp_path, pool, deployment(nodes, "web"), duration="128m")
    began = [
        datetime.fromisoformat(e.t) for e in happened(result, "nodeTainted") if e.fields.get("reason") == "Expired"
    ]
    assert len(began) >= nodes
    first = sorted(began)[:nodes]
    assert first[-1] - first[0] >= timedelta(minutes=4)
    assert_lawful(result)


def test_a_cluster_without_nodes_wakes_for_its_first_pod(tmp_path: Path) -> None:
    """A controller that runs in the cluster has nowhere to run once the last node is gone (k8s#1177)."""
    web = deployment(3)
    steps = [
        {"at": "8m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}},
        {"at": "40m", "scale": {"kind": "Deployment", "name": "web", "replicas": 1}},
    ]
    result = play(tmp_path, node_pool(), web, steps=steps, duration="50m")
    gone = [e.t for e in result.events if e.event == "instanceTerminated"]
    assert len(gone) == result.summary["nodesLaunched"] - 1
    assert (result.summary["nodesAtEnd"], result.summary["podsPending"]) == (1, 0)
    assert_lawful(result)


@pytest.mark.ci
def test_replacements_that_never_join_stop_the_rollout_and_the_old_nodes_stay(tmp_path: Path) -> None:
    """A bad image launched instance after instance, for hours, and old nodes were closed meanwhile (aws#3979)."""
    pool = node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    changed = node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    changed["spec"]["template"]["metadata"] = {"labels": {"generation": "2"}}
    steps = [{"at": "10m", "boot": {"fail": 100}}, {"at": "11m", "apply": [changed]}]
    result = play(tmp_path, pool, deployment(4, "web", "3"), steps=steps, duration="2h")
    before = len([e for e in result.events if e.event == "nodeReady"])
    assert named(result, "podEvicted") == []
    assert result.summary["nodesLaunched"] - before <= 4
    assert result.summary["nodesTerminated"] == result.summary["nodesLaunched"] - before
    assert "RolloutStopped" in {told["reason"] for told in result.decisions}
    assert_lawful(result)


@pytest.mark.ci
def test_evictions_keep_to_their_ceiling_in_any_hour(tmp_path: Path) -> None:
    """Teams called consolidation aggressive: thousands of evictions on a day (zalando-incubator/kubernetes-on-aws#7964)."""
    ceiling = 4
    before = node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    kept = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["test.small"]}
    before["spec"]["template"]["spec"]["requirements"].append(kept)
    steps: list[dict[str, Any]] = [
        {"at": "6m", "scale": {"kind": "Deployment", "name": "large", "replicas": 0}},
        {"at": "7m", "apply": [node_pool()]},
    ]
    workloads = [deployment(10, "large", "1200m"), deployment(10, "small", "500m")]
    result = play(tmp_path, before, *workloads, steps=steps, duration="150m", settings={"evictionsPerHour": ceiling})
    moments = [datetime.fromisoformat(e.t) for e in result.events if e.event == "podEvicted"]
    assert len(moments) > ceiling, "it goes on in the next hour"
    assert all(sum(0 <= (one - first).total_seconds() < 3600 for one in moments) <= ceiling for first in moments)
    assert_lawful(result)


def evictions_until_nodes_are_gone(folder: Path, number: int, *, is_on: bool) -> int:
    """Sixteen nodes, each with a small pod left; they go one by one, and half of the pods are scaled in meanwhile."""
    folder.mkdir()
    before = node_pool(disruption={"consolidateAfter": "Never", "budgets": [{"nodes": "100%"}]})
    one_by_one = node_pool(disruption={"consolidateAfter": "30s", "budgets": [{"nodes": "1"}]})
    for pool in (before, one_by_one):
        kept = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["test.medium"]}
        pool["spec"]["template"]["spec"]["requirements"].append(kept)
    steps: list[dict[str, Any]] = [
        {"at": "5m", "scale": {"kind": "Deployment", "name": "large", "replicas": 0}},
        {"at": "6m", "apply": [one_by_one]},
        {"at": "8m", "scale": {"kind": "Deployment", "name": "small", "replicas": 8}},
    ]
    workloads = [deployment(16, "large", "2600m"), deployment(16, "small", "600m")]
    settings = {"steerScaleIn": is_on}
    result = play(folder, before, *workloads, steps=steps, duration="25m", settings=settings)
    assert_lawful(result)
    gone = [index for index, event in enumerate(result.events) if event.event == "instanceTerminated"]
    return sum(event.event == "podEvicted" for event in result.events[: gone[number - 1]])


@pytest.mark.ci
def test_scale_in_takes_pods_of_nodes_that_go_next(tmp_path: Path) -> None:
    """It took a pod from each node, and consolidation evicted the others (k8s#2935)."""
    without, steered = (
        evictions_until_nodes_are_gone(tmp_path / str(is_on), 13, is_on=is_on) for is_on in (False, True)
    )
    assert steered < without
