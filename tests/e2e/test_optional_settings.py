"""What the functions do only under a setting: buffers, overlays, the scheduler's default spreads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from adapters.ports import JsonObject
from core import labels
from tests.e2e.functions.sandbox import OK
from tests.e2e.parts.admin import until
from tests.e2e.play import assert_decisions_repeat
from tests.e2e.report import Report
from tests.e2e.scenarios.objects import deployment, namespace, node_class, node_pool
from tests.e2e.world import World

SPACE = "optional"
BUFFERS = "capacitybuffers.autoscaling.x-k8s.io"
GATES = "CapacityBuffer=true,NodeOverlay=true"
SECONDS = 120.0
"""For the scheduler to take up a pod, which takes a moment."""
SPREAD = {"maxSkew": 3, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}
SCHEDULER = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "pluginConfig": [
                {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": [SPREAD]}}
            ]
        }
    ],
}


@pytest.fixture
def told(world: World, report: Report) -> Iterator[World]:
    """Gates open, default spreads known, a pod and two buffers to plan for; nothing wakes the functions but the test."""
    world.clean()
    world.pump.pause()
    world.admin.apply([buffer_definition()])
    world.admin.apply([namespace(SPACE), node_class(), node_pool(SPACE), deployment(SPACE, "web", 1), pod_template()])
    world.admin.apply(
        [
            buffer("by-template", podTemplateRef={"name": "shape"}, replicas=1),
            buffer(
                "by-deployment", scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "web"}, percentage=100
            ),
        ]
    )
    until(lambda: _marked(world), seconds=SECONDS, what="the scheduler has given up on the pod")
    world.set_environment(FEATURE_GATES=GATES, SCHEDULER_CONFIG=json.dumps(SCHEDULER))
    yield world
    world.reset()


def test_buffers_get_room_and_are_told(told: World) -> None:
    """If this failed, the role would lack what buffers and default spreads take, or the buffers' status would be refused."""
    for name in ("reconcile", "provision"):
        invocation = told.wake(name)
        assert invocation.outcome == OK, invocation.response
    plans = [record.plan for record in told.planned.current()]
    assert sum(len(plan.pods) for plan in plans) == 1
    assert sum(len(plan.buffer_pods) for plan in plans) == 2
    for found in told.admin.list(BUFFERS, SPACE):
        conditions = {one["type"]: one["status"] for one in found["status"]["conditions"]}
        assert conditions["ReadyForProvisioning"] == "True", found


def test_groups_of_tools_that_are_not_installed_wait(told: World) -> None:
    """If this failed, kinds that nobody serves would end the run, or a pod whose PodGroup is missing would be bought alone."""
    names = [
        {"labels": {labels.JOB_SET: "absent"}},
        {"labels": {labels.LEADER_WORKER_SET: "absent", labels.LEADER_WORKER_GROUP: "0"}},
        {"labels": {labels.COSCHEDULING_GROUP: "absent"}},
        {"annotations": {labels.VOLCANO_GROUP: "absent"}},
    ]
    told.admin.apply(_member(f"member-{number}", **metadata) for number, metadata in enumerate(names))
    until(lambda: len(_marked(told)) > len(names), seconds=SECONDS, what="the scheduler has given up on all pods")
    for name in ("reconcile", "provision"):
        invocation = told.wake(name)
        assert invocation.outcome == OK, invocation.response
    planned = {pod for record in told.planned.current() for pod in record.plan.pods}
    assert planned.isdisjoint({f"{SPACE}/member-2", f"{SPACE}/member-3"})  # without a JobSet, its pods are single ones


def _member(name: str, **metadata: Any) -> JsonObject:
    spec = deployment(SPACE, name, 1)["spec"]["template"]["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": SPACE, **metadata}, "spec": spec}


def buffer(name: str, **spec: Any) -> JsonObject:
    """A CapacityBuffer."""
    return {
        "apiVersion": "autoscaling.x-k8s.io/v1beta1",
        "kind": "CapacityBuffer",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": spec,
    }


def pod_template() -> JsonObject:
    """A PodTemplate for the buffer."""
    pod = deployment(SPACE, "shape", 1)["spec"]["template"]
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "shape", "namespace": SPACE},
        "template": pod,
    }


def buffer_definition() -> JsonObject:
    """Where CapacityBuffers are: the kind is the autoscalers' own, and so is its schema."""
    version = {
        "name": "v1beta1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": BUFFERS,
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes/autoscaler"},
        },
        "spec": {
            "group": "autoscaling.x-k8s.io",
            "scope": "Namespaced",
            "names": {"plural": "capacitybuffers", "singular": "capacitybuffer", "kind": "CapacityBuffer"},
            "versions": [version],
        },
    }


def test_the_decisions_are_repeated_byte_for_byte(world: World, report: Report) -> None:
    """What a clock bounded on a busy machine must be repeated elsewhere; simulated runs bound their searches by steps."""
    assert_decisions_repeat(world, report)


def _marked(world: World) -> list[str]:
    return [
        pod["metadata"]["name"]
        for pod in world.admin.list("pods", SPACE)
        if any(condition.get("reason") == "Unschedulable" for condition in pod["status"].get("conditions") or ())
    ]
