"""Kubernetes' own kubelets admit the pods that we bind: they may refuse for good what kwok accepts."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from core.api.objects import JsonObject
from tests.e2e.parts.builds import hollow_kubelet
from tests.e2e.play import Outcome, Play, play_together
from tests.e2e.report import Report
from tests.e2e.scenarios import examples
from tests.e2e.scenarios.objects import AMD64, deployment, node_class, node_pool, requirement
from tests.e2e.suite import shared_dynamodb
from tests.e2e.world import World

BUILD: Final = Path(__file__).parents[2] / "build"
REPLICAS: Final = 6
DEPLOYMENTS: Final = 20
STRANGERS: Final = 8
SHRUNKEN: Final = 4
"""Every fourth kubelet offers three quarters of what its type has."""

REFUSALS: Final = ("OutOf", "NodeAffinity", "TaintToleration", "NodePorts", "UnexpectedAdmissionError")
"""How the reasons begin with which a kubelet fails a pod at its admission."""

SCENE: Final = "burst on hollow kubelets, among strangers"


@pytest.fixture(scope="module")
def hollow_world(pytestconfig: pytest.Config) -> Iterator[World]:
    """A world whose kubelets are real but for their containers."""
    folder = BUILD / "e2e" / f"{os.getpid()}-hollow"
    with World(folder, dynamodb=shared_dynamodb(pytestconfig), hollow=hollow_kubelet(), shrinks=shrinks) as started:
        yield started


def shrinks(provider_id: str) -> int:
    """Percent of its allocatable that the kubelet of an instance offers."""
    return 75 if int(provider_id[-4:], 16) % SHRUNKEN == 0 else 100


def strangers() -> list[JsonObject]:
    """Pods that tolerate our taint, so that the scheduler brings them to held nodes; late daemons; pods that outrank others."""
    everywhere: JsonObject = {"tolerations": [{"operator": "Exists"}]}
    # Not of the scene: on a kubelet that offers less it may find no room, as it may on any node.
    daemon = deployment("kube-system", "late", 1, cpu="100m", memory="64Mi")
    daemon = {**daemon, "kind": "DaemonSet", "spec": {k: v for k, v in daemon["spec"].items() if k != "replicas"}}
    urgent = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "urgent"},
        "value": 1000,
    }
    return [
        daemon,
        urgent,
        deployment("strangers", "everywhere", STRANGERS, cpu="300m", memory="256Mi", **everywhere),
        deployment("strangers", "urgent", STRANGERS, cpu="400m", memory="256Mi", priorityClassName="urgent"),
    ]


def hostile(playing: Play) -> None:
    """All constraint kinds at once, on kubelets that refuse, beside pods that nobody planned for."""
    both = requirement("karpenter.sh/capacity-type", "spot", "on-demand")
    # A kubelet that offers less than planned may leave a node without a pod.
    emptied: JsonObject = {"policy": "WhenEmpty", "consolidate_after": "10s"}
    tainted: JsonObject = {"labels": {"pool": "dedicated"}, "template": {"taints": [examples.DEDICATED]}, "weight": 10}
    small = requirement("karpenter.k8s.aws/instance-cpu", "9", operator="Lt")
    pools = [
        node_pool("burst", AMD64, both, small, **emptied),
        node_pool("dedicated", AMD64, both, small, **emptied, **tainted),
    ]
    playing.apply(node_class(), *pools)
    playing.ready()
    playing.apply(*strangers(), *examples.workload("burst", REPLICAS, DEPLOYMENTS))
    playing.wait_until_running(DEPLOYMENTS * REPLICAS + 2 * STRANGERS)
    playing.wait_until_none_is_empty()
    playing.violations += refusals(playing.world)


def refusals(world: World) -> list[str]:
    """What kubelets refused, by their events: a failed pod may be gone by now."""
    events = world.admin.list("events", fields="type=Warning")
    told = [
        f"{event['involvedObject']['namespace']}/{event['involvedObject']['name']}: {event['reason']}: {event['message']}"
        for event in events
        if str(event.get("reason", "")).startswith(REFUSALS)
    ]
    failed = world.admin.list("pods", fields="status.phase=Failed")
    return [*told, *(f"{pod['metadata']['name']} has failed: {pod['status'].get('reason')}" for pod in failed)]


@pytest.fixture(scope="module")
def outcome(hollow_world: World) -> Outcome:
    """The scene, played; its figures are in this world's own report."""
    return play_together(hollow_world, Report(), {SCENE: hostile})[SCENE]


def test_no_kubelet_refuses_a_pod(outcome: Outcome) -> None:
    """A refused pod has failed for good: its owner makes another, and bare pods are lost."""
    outcome.assert_lawful()


def test_the_burst_is_bound_as_planned(outcome: Outcome) -> None:
    """Exceptions: foreign pods, pods that they displace, and nodes that are smaller than planned."""
    outcome.assert_as_planned()
