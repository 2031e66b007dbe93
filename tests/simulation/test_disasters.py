"""Failures from outside: no capacity, no API server, reclaimed instances; and a crash in the middle of a drain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from installation.wiring import QUEUES
from simulator.aws.installation import read_region
from simulator.clock import VirtualClock
from simulator.record import Recorder
from simulator.run import Result, seeded
from simulator.scenario import read_scenario
from simulator.world import open_world
from tests.simulation.worlds import assert_lawful, deployment, named, node_pool, play, write

SCALE_TO_ZERO = {"at": "15m", "scale": {"kind": "Deployment", "name": "web", "replicas": 0}}
HALF = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
}


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
            service, at, marks=() if (service == "kube") or (service, at) == ("dynamodb", "20s") else pytest.mark.slow
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
ALWAYS = {("kube:create pods/eviction", "crashAfter"), ("kube:delete nodes", "lostReply")}


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
