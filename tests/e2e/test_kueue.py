"""Kueue's own controllers hold Jobs back, ask for nodes, and start them on what was bought."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import pytest

from adapters.ports import JsonObject
from core import labels
from core.provisioning_requests import ATOMIC_SCALE_UP, DETAIL
from tests.e2e.parts import kueue
from tests.e2e.play import Outcome, Play, Scene, play_together
from tests.e2e.report import Report
from tests.e2e.scenarios.objects import node_class, on, own_pool
from tests.e2e.world import World

TURNS = "Jobs take turns in a queue"
REFUSED = "a request is refused and made again"
PREEMPTED = "an urgent Job takes the place of another"

REQUESTS: Final = "provisioningrequests.autoscaling.x-k8s.io"
KUEUE: Final = "kueue.x-k8s.io/v1beta2"
RUNS_FOR: Final = "fleetwright.example/runs-for"
MEMBERS: Final = 4
CPUS: Final = 3
URGENT: Final = "urgent"


@pytest.fixture(scope="module")
def outcomes(world: World, report: Report) -> Iterator[dict[str, Outcome]]:
    """The scenes, side by side, each in a queue and a NodePool of its own; Kueue is gone afterwards, its definitions stay."""
    world.clean()
    with kueue.started(world.control_plane, world.processes, world.folder / "kueue"):
        world.functions.forget()  # who starts now sees that ProvisioningRequests are served
        scenes: dict[str, Scene] = {TURNS: take_turns, REFUSED: refused, PREEMPTED: preempted}
        yield play_together(world, report, scenes)
        world.reset()


@pytest.mark.parametrize("name", [TURNS, REFUSED, PREEMPTED])
def test_a_queue_of_jobs_runs_on_what_was_bought(outcomes: dict[str, Outcome], name: str) -> None:
    """If this failed, Kueue would read our conditions otherwise than we mean them."""
    outcomes[name].assert_lawful()


def take_turns(playing: Play) -> None:
    """Room for two Jobs in the queue, and three of them: the third starts when the first has ended."""
    space = "turns"
    _open_queue(playing, space, jobs=2)
    submitted = time.monotonic()
    _submit(playing, space, "first", runs_for="20s")
    _submit(playing, space, "second")
    _submit(playing, space, "third")
    for name in ("first", "second"):
        _wait_until_started(playing, space, name)
    print(f"{TURNS}: both run {time.monotonic() - submitted:.1f} s after they were submitted")
    _wait_until_started(playing, space, "third")
    playing.wait_until_running(2 * MEMBERS)


def refused(playing: Play) -> None:
    """The NodePool's limit is too low until the second attempt, and Kueue has been told why."""
    space = "refused"
    _open_queue(playing, space, jobs=1, valid_for=30, limits={"cpu": str(CPUS)})
    _submit(playing, space, "job")
    first = _request(playing, space, "job")
    playing.wait(lambda: _attempts(playing, space) - {first} or not _exists(playing, space, first), "a second attempt")
    playing.world.admin.patch("nodepools.karpenter.sh", space, {"spec": {"limits": None}})
    _wait_until_started(playing, space, "job")
    playing.wait_until_running(MEMBERS)


def preempted(playing: Play) -> None:
    """The Job that ran is suspended, and its pods go; the urgent one runs. The first keeps its room until it is deleted."""
    space = "preempted"
    _open_queue(playing, space, jobs=1)
    _submit(playing, space, "patient")
    _wait_until_started(playing, space, "patient")
    _submit(playing, space, "urgent", priority=URGENT)
    _wait_until_started(playing, space, "urgent")
    playing.wait(lambda: _is_suspended(playing, space, "patient"), "the patient Job is suspended")
    playing.wait_until_running(MEMBERS)
    playing.world.admin.delete("jobs.batch", "patient", space)
    playing.wait_until_none_is_empty()


def _open_queue(playing: Play, space: str, *, jobs: int, valid_for: int = 3600, **pool: object) -> None:
    """A queue with a quota for so many Jobs of this page, whose workloads wait for nodes of a NodePool of its own."""
    request_config: JsonObject = {
        "provisioningClassName": ATOMIC_SCALE_UP,
        "parameters": {"ValidUntilSeconds": str(valid_for)},
        "managedResources": ["cpu"],
        "retryStrategy": {"backoffLimitCount": 20, "backoffBaseSeconds": 1, "backoffMaxSeconds": 2},
        "podSetUpdates": {
            "nodeSelector": [{"key": labels.PROVISIONING_REQUEST, "valueFromProvisioningClassDetail": DETAIL}]
        },
    }
    check = {
        "controllerName": "kueue.x-k8s.io/provisioning-request",
        "parameters": {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": space},
    }
    quota = {"name": space, "resources": [{"name": "cpu", "nominalQuota": jobs * MEMBERS * CPUS}]}
    queue: JsonObject = {
        "namespaceSelector": {},
        "preemption": {"withinClusterQueue": "LowerPriority"},
        "resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}],
        "admissionChecksStrategy": {"admissionChecks": [{"name": space, "onFlavors": [space]}]},
    }
    playing.apply(
        node_class(),
        own_pool(space, consolidate_after="5s", policy="WhenEmpty", **pool),
        _of_kueue("ResourceFlavor", space, {}),
        _of_kueue("ProvisioningRequestConfig", space, request_config),
        _of_kueue("AdmissionCheck", space, check),
        _of_kueue("ClusterQueue", space, queue),
        _of_kueue("LocalQueue", space, {"clusterQueue": space}, space),
        {"apiVersion": KUEUE, "kind": "WorkloadPriorityClass", "metadata": {"name": URGENT}, "value": 1000},
    )
    playing.ready()
    playing.wait(lambda: _is_active(playing, space), "the queue is active")


def _of_kueue(kind: str, name: str, spec: JsonObject, namespace: str = "") -> JsonObject:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": spec}


def _submit(playing: Play, space: str, name: str, *, runs_for: str = "", priority: str = "") -> None:
    """A suspended Job, which Kueue's webhook would make of any; it runs for ever, or for as long as it says."""
    queue = {"kueue.x-k8s.io/queue-name": space}
    urgency = {"kueue.x-k8s.io/priority-class": priority} if priority else {}
    container = {
        "name": "main",
        "image": "registry.example.com/worker:1",
        "resources": {"requests": {"cpu": str(CPUS)}},
    }
    template = {
        "metadata": {"annotations": {RUNS_FOR: runs_for} if runs_for else {}},
        "spec": {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **on(space)},
    }
    playing.apply(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "namespace": space, "labels": queue | urgency},
            "spec": {
                "suspend": True,
                "parallelism": MEMBERS,
                "completions": MEMBERS,
                "completionMode": "Indexed",
                "template": template,
            },
        }
    )


def _wait_until_started(playing: Play, space: str, name: str) -> None:
    """Wait until all pods of a Job have had a node, and look that each is one that was bought for it."""
    playing.wait(lambda: len(_nodes_of(playing, space, name)) == MEMBERS, f"{name} runs")
    job = playing.world.admin.get("jobs.batch", name, space) or {}
    value = job["spec"]["template"]["spec"]["nodeSelector"].get(labels.PROVISIONING_REQUEST)
    if not value:
        playing.violations.append(f"{name} has no node selector of its request")
    for node in _nodes_of(playing, space, name):
        on_server = playing.world.admin.get("nodes", node)
        if on_server is not None and on_server["metadata"]["labels"].get(labels.PROVISIONING_REQUEST) != value:
            playing.violations.append(f"{name} runs on {node}, which was bought for something else")


def _nodes_of(playing: Play, space: str, name: str) -> list[str]:
    """The node of each pod of a Job, of those that have one."""
    pods = playing.world.admin.list("pods", space, labels=f"batch.kubernetes.io/job-name={name}")
    return [pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")]


def _request(playing: Play, space: str, name: str) -> str:
    """The name of the Job's request, once there is one."""
    playing.wait(lambda: _attempts(playing, space), f"a request of {name}")
    return min(_attempts(playing, space))


def _attempts(playing: Play, space: str) -> set[str]:
    return {request["metadata"]["name"] for request in playing.world.admin.list(REQUESTS, space)}


def _exists(playing: Play, space: str, request: str) -> bool:
    return playing.world.admin.get(REQUESTS, request, space) is not None


def _is_active(playing: Play, queue: str) -> bool:
    conditions = (
        (playing.world.admin.get("clusterqueues.kueue.x-k8s.io", queue) or {}).get("status", {}).get("conditions")
    )
    return any(one["type"] == "Active" and one["status"] == "True" for one in conditions or ())


def _is_suspended(playing: Play, space: str, name: str) -> bool:
    job = playing.world.admin.get("jobs.batch", name, space) or {}
    return bool(job["spec"].get("suspend")) and not _nodes_of(playing, space, name)
