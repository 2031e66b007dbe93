"""Instances that EC2 reclaims with notice: pods move in time, and not before they have somewhere to go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import simulator.world
from core import labels
from core.lifecycle.commands import DUE_BEFORE
from core.manifests.wire import resources
from installation.wiring import QUEUES
from simulator.aws.ec2 import instances
from simulator.aws.installation import read_region
from simulator.clock import VirtualClock
from simulator.record import Recorder
from simulator.scenario import read_scenario
from simulator.world import Result, World, open_world, seeded
from tests.simulation.worlds import assert_lawful, deployment, happened, named, node_pool, play, write

NOTICE = {"at": "6m", "interrupt": {"fraction": 0.5}}
NO_CAPACITY = {"at": "5m", "capacity": {"available": 0}}


def moments(result: Result, event: str) -> list[datetime]:
    return [datetime.fromisoformat(occurrence.t) for occurrence in happened(result, event)]


def test_the_replacement_is_ready_before_the_first_pod_is_evicted(tmp_path: Path) -> None:
    """If this failed, the pods of a spot node would be down for as long as a node takes to boot, with time left unused."""
    result = play(tmp_path, node_pool(), deployment(2, cpu="12"), steps=[NOTICE], duration="12m")
    (notice,) = moments(result, "interruptionNotice")
    (evicted,) = moments(result, "podEvicted")
    ready = [moment for moment in moments(result, "nodeReady") if moment > notice]
    tainted = [moment for moment in moments(result, "nodeTainted") if moment > notice]
    assert len(ready) == 1
    assert tainted[0] < ready[0] < evicted < notice + instances.SPOT_NOTICE
    assert (result.summary["nodesLaunched"], result.summary["podsPending"]) == (3, 0)
    assert_lawful(result)


def test_without_capacity_pods_leave_at_the_last_moment_that_leaves_them_their_grace(tmp_path: Path) -> None:
    """If this failed, pods would be evicted early for nothing, or be killed with their instance."""
    steps = [NO_CAPACITY, NOTICE]
    result = play(tmp_path, node_pool(), deployment(2, cpu="12"), steps=steps, duration="12m")
    (notice,) = moments(result, "interruptionNotice")
    (evicted,) = moments(result, "podEvicted")
    assert timedelta(seconds=60) < evicted - notice < timedelta(seconds=85)
    assert result.summary["nodesLaunched"] == 2
    (ended,) = moments(result, "instanceTerminated")
    gone = [moment for moment in moments(result, "podDeleted") if moment >= evicted]
    assert gone[0] <= ended
    assert_lawful(result)


@pytest.mark.parametrize("second", [1, 14, 31, 50])
def test_with_a_dead_work_queue_pods_leave_well_before_their_instance(tmp_path: Path, second: int) -> None:
    """The table alone brings a look each minute: the one that closed the node waited, and the next came too late."""
    dead = {"at": "5m", "queue": {"name": "work", "down": True, "for": "1h"}}
    notice = {"at": f"{360 + second}s", "interrupt": {"fraction": 0.5}}
    result = play(tmp_path, node_pool(), deployment(2, cpu="12"), steps=[dead, notice], duration="12m")
    (noticed,) = moments(result, "interruptionNotice")
    (evicted,) = [moment for moment in moments(result, "podEvicted") if moment >= noticed]
    (ended,) = moments(result, "instanceTerminated")
    assert evicted - noticed <= timedelta(seconds=80)
    assert ended - evicted >= timedelta(seconds=35)
    assert_lawful(result)


ANNOUNCED = {"at": "6m", "interrupt": {"fraction": 1.0, "kind": "scheduledChange"}}


def a_fleet(budget: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Three nodes that only a scheduled change takes away."""
    pool = node_pool()
    pool["spec"]["disruption"] |= {"budgets": [{"nodes": budget}], "consolidateAfter": "Never"}
    return pool, deployment(3, cpu="12")


def test_a_change_two_weeks_ahead_is_remembered_and_nobody_moves_yet(tmp_path: Path) -> None:
    """If this failed, an announcement of AWS would evict all pods of a rack at once, two weeks too early."""
    result = play(tmp_path, *a_fleet("100%"), steps=[ANNOUNCED], duration="30m")
    told = [(d["kind"], d["reason"]) for d in result.decisions if d["reason"].startswith("Scheduled")]
    assert told == [("interrupt", "ScheduledChange")] * 3
    assert (named(result, "podEvicted"), result.summary["nodesLaunched"]) == ([], 3)
    assert_lawful(result)


def test_before_its_date_nodes_go_one_by_one_as_the_budget_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this failed, AWS' announcement would be a way around budgets, or nodes would end with their pods."""
    monkeypatch.setattr(instances, "MAINTENANCE_NOTICE", timedelta(hours=20))
    result = play(tmp_path, *a_fleet("1"), steps=[ANNOUNCED], duration="40m")
    started = moments(result, "nodeTainted")
    ended = moments(result, "instanceTerminated")
    assert len(started) == len(ended) == 3
    assert all(end < start for end, start in zip(ended, started[1:], strict=False))
    ready = [moment for moment in moments(result, "nodeReady") if moment > started[0]]
    evicted = moments(result, "podEvicted")
    assert all(there < gone for there, gone in zip(ready, evicted, strict=True))
    assert {d["reason"] for d in result.decisions if d["kind"] == "drain"} == {"ScheduledChange"}
    assert_lawful(result)


def test_in_the_last_hours_no_budget_keeps_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this failed, a budget of zero would let pods die with their instance."""
    monkeypatch.setattr(instances, "MAINTENANCE_NOTICE", DUE_BEFORE + timedelta(minutes=20))
    result = play(tmp_path, *a_fleet("0"), steps=[ANNOUNCED], duration="40m")
    (first, *_) = moments(result, "nodeTainted")
    assert first >= moments(result, "interruptionNotice")[0] + timedelta(minutes=20)
    assert (len(named(result, "instanceTerminated")), result.summary["podsPending"]) == (3, 0)
    assert {d["reason"] for d in result.decisions if d["kind"] == "drain"} == {"ScheduledChangeDue"}
    assert_lawful(result)


@pytest.mark.slow
def test_days_ahead_they_are_gone_before_their_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same in full length, from the announcement over the first hours of quiet to the last node."""
    monkeypatch.setattr(instances, "MAINTENANCE_NOTICE", timedelta(hours=76))
    result = play(tmp_path, *a_fleet("1"), steps=[ANNOUNCED], duration="30h")
    notice = moments(result, "interruptionNotice")[0]
    assert all(moment > notice + timedelta(hours=4) for moment in moments(result, "nodeTainted"))
    assert len(named(result, "instanceTerminated")) == 3
    assert_lawful(result)


# Somebody deletes Node objects whose instances run.


HALF = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
}


def test_all_nodes_are_deleted_at_once_and_the_budget_of_pods_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If this failed, `kubectl delete nodes --all` would take a service down; with it pods move within their budget."""

    @contextmanager
    def with_deletion(*arguments: Any, **options: Any) -> Iterator[World]:
        with open_world(*arguments, **options) as world:

            def delete_all() -> None:
                for node in world.cluster.api.list(resources.NODES).items:
                    world.cluster.api.delete(resources.NODES, node.metadata.name)

            world.clock.after(timedelta(minutes=8), delete_all)
            yield world

    monkeypatch.setattr(simulator.world, "open_world", with_deletion)
    result = play(tmp_path, node_pool(), HALF, deployment(4, cpu="12"), duration="25m")
    assert len(named(result, "podEvicted")) == 4
    assert (result.summary["nodesTerminated"], result.summary["nodesAtEnd"]) == (4, 4)
    assert result.summary["podsPending"] == 0
    assert_lawful(result)


# Failures from outside: no capacity, no API server, reclaimed instances; and a crash in the middle of a drain.


SCALE_TO_ZERO = {"at": "15m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}}


def assert_there_and_gone(result: Result, pods: int) -> None:
    """Every pod had its node, and nothing is left."""
    assert (result.summary["podsScheduled"], result.summary["nodesAtEnd"]) == (pods, 0)
    assert_lawful(result)


def test_pods_get_nodes_soon_after_capacity_is_back(tmp_path: Path) -> None:
    """If this failed, one bad hour of EC2 would keep pods waiting for hours, or keep the functions busy with nothing else."""
    steps: list[dict[str, Any]] = [
        {"at": 0, "capacity": {"available": 0}},
        {"at": "6m", "capacity": {"available": None}},
    ]
    result = play(tmp_path, node_pool(), deployment(6), steps=steps, duration="14m")
    assert result.summary["podsPending"] == 0
    assert result.summary["invocations"]["provision"] < 14 * 8
    assert_lawful(result)


def test_a_pod_without_capacity_is_told_so_and_not_forgotten(tmp_path: Path) -> None:
    """If this failed, a shortage would look like a bug in the pod, or fill the page with one line."""
    steps = [{"at": 0, "capacity": {"available": 0}}]
    result = play(tmp_path, node_pool(), deployment(1), steps=steps, duration="10m")
    assert result.summary["podsPending"] == 1
    assert list(result.summary["podsUnschedulable"].values()) == [1]
    assert len([told for told in result.decisions if told["kind"] == "unschedulable"]) <= 2


@pytest.mark.parametrize(
    ("service", "at"),
    [
        pytest.param(
            service, at, marks=() if (service, at) in {("kube", "15m"), ("dynamodb", "20s")} else pytest.mark.slow
        )
        for service in ("kube", "dynamodb", "ec2", "sqs")
        for at in ("20s", "15m")
    ],
)
def test_a_minute_without_a_service_is_caught_up(tmp_path: Path, service: str, at: str) -> None:
    """If this failed, what fell into an outage, a launch or a drain, would never be finished."""
    fault = {"at": at, "fault": {"call": f"{service}:*", "kind": "error", "for": "1m"}}
    steps = sorted([fault, SCALE_TO_ZERO], key=lambda step: step["at"] != "20s")
    result = play(tmp_path, node_pool(), deployment(6), steps=steps, duration="30m")
    assert_there_and_gone(result, 6)


def test_half_an_hour_without_api_server_leaves_no_dead_letters(tmp_path: Path) -> None:
    """If this failed, an alarm would stay on for two weeks after an outage whose work the schedules have long done."""
    fault = {"at": "15s", "fault": {"call": "kube:*", "kind": "error", "for": "35m"}}
    scenario = read_scenario(write(tmp_path, node_pool(), deployment(6), steps=[fault], duration="50m"))
    clock = VirtualClock(scenario.start)
    region, recorder = read_region(scenario.catalogue_file), Recorder(clock)
    with seeded(1), open_world(scenario, region, 1, recorder, clock) as world:
        world.play([])
        clock.run_until(scenario.start + scenario.duration)
        queues = [world.account.queues.get(queue.name) for queue in QUEUES]
        assert {queue.name: len(queue.dead) for queue in queues} == {queue.name: 0 for queue in QUEUES}
        assert world.summary.figures({})["podsPending"] == 0


def test_half_of_all_machines_may_be_taken_back_again_and_again(tmp_path: Path) -> None:
    """If this failed, a bad day on the spot market would end with pods without a node."""
    steps = [{"at": f"{minutes}m", "interrupt": {"fraction": 0.5}} for minutes in (6, 12, 18)]
    result = play(tmp_path, node_pool(), HALF, deployment(4, cpu="12"), steps=steps, duration="30m")
    assert len(named(result, "interruptionNotice")) == 6
    assert (result.summary["podsPending"], result.summary["nodesAtEnd"]) == (0, 4)
    assert_lawful(result)


def test_machines_that_never_boot_do_not_use_up_the_limits(tmp_path: Path) -> None:
    """If this failed, three broken machines would lock their NodePool forever."""
    steps = [{"at": 0, "boot": {"fail": 3}}]
    result = play(tmp_path, node_pool(limits={"cpu": "48"}), deployment(3, cpu="12"), steps=steps, duration="45m")
    assert (result.summary["nodesLaunched"], result.summary["nodesAtEnd"]) == (6, 3)
    assert result.summary["podsPending"] == 0
    assert_lawful(result)


DRAIN_CALLS = ("kube:create pods/eviction", "kube:delete nodes", "ec2:TerminateInstances", "dynamodb:DeleteItem")
KINDS = ("lostReply", "crashBefore", "crashAfter", "throttle")
ALWAYS = {("kube:create pods/eviction", "crashAfter")}
"""Runs each time, all combinations in the long test run."""


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        pytest.param(call, kind, marks=() if (call, kind) in ALWAYS else pytest.mark.slow)
        for call in DRAIN_CALLS
        for kind in KINDS
    ],
)
def test_a_drain_goes_on_after_any_disaster(tmp_path: Path, call: str, kind: str) -> None:
    """If this failed, a crash in the middle of a drain would leave a node cordoned, or a budget broken."""
    other = {**node_pool(), "metadata": {"name": "other"}}
    steps = [
        {"at": "6m", "fault": {"call": call, "kind": kind, "count": 2}},
        {"at": "6m", "delete": [{"kind": "NodePool", "name": "default"}]},
    ]
    result = play(tmp_path, node_pool(weight=10), other, HALF, deployment(3, cpu="12"), steps=steps, duration="35m")
    assert (result.summary["nodesLaunched"], result.summary["nodesTerminated"]) == (6, 3)
    assert result.summary["podsPending"] == 0
    assert_lawful(result)


def test_a_market_that_was_not_read_at_first_is_read_soon(tmp_path: Path) -> None:
    """If this failed, a new installation whose first reading fails would launch nothing for an hour (seed 136)."""
    steps = [{"at": "0s", "fault": {"function": "refresh_catalogue", "call": "*", "kind": "crashBefore", "count": 3}}]
    result = play(tmp_path, node_pool(), deployment(1), steps=steps, duration="15m")
    assert (result.summary["podsPending"], result.summary["nodesLaunched"]) == (0, 1)
    assert_lawful(result)


# Users change and delete NodePools, EC2NodeClasses and Nodes while pods run.


ONE_AT_A_TIME = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m", "budgets": [{"nodes": "1"}]}
A_NODE_EACH = "12"
"""CPUs of a pod that fills the largest type."""


def renamed(pool: dict[str, Any], name: str) -> dict[str, Any]:
    """The same NodePool under another name."""
    return {**pool, "metadata": {"name": name}}


def labelled(pool: dict[str, Any], **new_labels: str) -> dict[str, Any]:
    """The same NodePool whose nodes carry these labels too."""
    changed = deepcopy(pool)
    changed["spec"]["template"]["metadata"] = {"labels": new_labels}
    return changed


def disrupted(result: Result) -> list[str]:
    """Why nodes were tainted to go, in order."""
    return [event["reason"] for event in named(result, "nodeTainted") if event["key"] == labels.DISRUPTED_TAINT]


def test_nodes_follow_their_changed_template_one_after_another(tmp_path: Path) -> None:
    """If this failed, a changed NodePool would hold for new nodes only, or replace all nodes at once."""
    pool = node_pool(disruption=ONE_AT_A_TIME)
    steps = [{"at": "6m", "apply": [labelled(pool, team="blue")]}]
    result = play(tmp_path, pool, HALF, deployment(3, cpu=A_NODE_EACH), steps=steps, duration="40m")
    assert disrupted(result) == ["Drifted"] * 3
    joined = named(result, "nodeJoined")
    assert len(joined) == 6
    teams = {
        n["object"]["metadata"]["name"]: n["object"]["metadata"]["labels"].get("team") for n in named_nodes(result)
    }
    assert [teams[node["node"]] for node in joined] == [None] * 3 + ["blue"] * 3
    assert result.summary["podsPending"] == 0
    assert_lawful(result)


def test_a_pool_at_its_limits_replaces_its_drifted_nodes_without_a_gap(tmp_path: Path) -> None:
    """What a node holds of the limits is free once it begins to go: its replacement has room while it still runs."""
    pool = node_pool(disruption=ONE_AT_A_TIME, limits={"cpu": "48"})
    steps = [{"at": "8m", "apply": [labelled(pool, team="blue")]}]
    result = play(tmp_path, pool, deployment(3, cpu="12"), steps=steps, duration="50m")
    joined = {n["object"]["metadata"]["name"]: n["object"] for n in named_nodes(result)}
    cores = [int(node["status"]["capacity"]["cpu"]) for node in joined.values()]
    assert sum(cores[:3]) == 48
    assert disrupted(result) == ["Drifted"] * 3
    moves = [event.event for event in result.events if event.event in ("nodeJoined", "nodeDeleted")]
    assert moves == ["nodeJoined"] * 3 + ["nodeJoined", "nodeDeleted"] * 3
    assert (result.summary["nodesAtEnd"], result.summary["podsPending"]) == (3, 0)
    assert result.summary["limitViolations"] == 0
    assert_lawful(result)


def named_nodes(result: Result) -> list[dict[str, Any]]:
    """The labels of each node over time: the record's Node objects, later ones last."""
    return [event for event in named(result, "objectApplied") if event["kind"] == "Node"]


def test_an_unchanged_world_is_left_alone(tmp_path: Path) -> None:
    """If this failed, nodes would be replaced for nothing: by ours where hashes are made unlike, by another's for his own."""
    theirs = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": "theirs",
            "labels": {labels.NODEPOOL: "default", labels.ZONE: "zone-a", labels.HOSTNAME: "theirs"},
            "annotations": {labels.NODEPOOL_HASH: "1", labels.NODEPOOL_HASH_VERSION: "v3"},
        },
        "spec": {"providerID": "aws:///zone-a/i-00000000000000001"},
        "status": {
            "capacity": {"cpu": "2", "memory": "8Gi", "pods": "10"},
            "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    pool = node_pool(disruption=ONE_AT_A_TIME)
    heavier = {**pool, "spec": {**pool["spec"], "weight": 3, "limits": {"cpu": "500"}}}
    steps = [{"at": "30m", "apply": [heavier]}]
    result = play(tmp_path, pool, theirs, deployment(2, cpu=A_NODE_EACH), steps=steps, duration="70m")
    assert disrupted(result) == []
    assert result.summary["nodesLaunched"] == 2
    assert_lawful(result)


def test_a_typing_mistake_is_refused_and_stops_nothing(tmp_path: Path) -> None:
    """The API server keeps the pool as it was; nodes of the pool stay, and pods get more of them."""
    first, second = node_pool(weight=10), renamed(node_pool(), "other")
    broken = deepcopy(first)
    broken["spec"]["template"]["spec"]["requirements"] = [
        {"key": labels.ZONE, "operator": "Near", "values": ["zone-a"]}
    ]
    steps = [
        {"at": "6m", "apply": [broken]},
        {"at": "7m", "scale": {"kind": "Deployment", "name": "web", "replicas": 4}},
    ]
    result = play(tmp_path, first, second, deployment(2, cpu=A_NODE_EACH), steps=steps, duration="20m")
    pools = [event["tags"][labels.NODEPOOL] for event in named(result, "instanceLaunched")]
    assert pools == ["default"] * 4
    assert result.summary["nodesTerminated"] == 0
    assert result.summary["podsPending"] == 0
    assert_lawful(result)
