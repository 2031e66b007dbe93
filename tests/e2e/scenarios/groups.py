"""Groups of pods that start together, written in the ways of Kubernetes, JobSet and LeaderWorkerSet."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from core import labels
from core.api.objects import JsonObject
from core.manifests.wire import resources
from core.manifests.wire.resources import Resource
from core.reasons.pods import PodReason
from tests.e2e.play import Play
from tests.e2e.scenarios.objects import node_class, on, own_pool

MEMBERS: Final = 8
CPUS: Final = 3
JOBS: Final = 2
REPLICAS: Final = 2
WORKERS: Final = 3
SEEN_FOR: Final = 45.0
"""How long nothing may be bought for a part of a group: several runs of `provision`, which the schedule wakes as well."""

COMPLETE: Final = "PodGroup of eight"
INCOMPLETE: Final = "PodGroup of seven where eight start"
JOB_SET: Final = "JobSet of two Jobs of four"
LEADER_WORKER_SET: Final = "LeaderWorkerSet in two steps"


def native(playing: Play) -> None:
    """Pods that name a PodGroup come to a cluster that may be without any node, where kube-scheduler gives no usual verdict."""
    space = "podgroup"
    _open(playing, space)
    playing.apply(_pod_group(space))
    began = time.monotonic()
    playing.apply(*_members(space, MEMBERS))
    _record(playing, began, MEMBERS)
    condition = _conditions(playing, space).get("PodGroupInitiallyScheduled")
    if condition is None or condition["status"] != "True":
        playing.violations.append(f"kube-scheduler did not start the pods as a group: {condition}")


def incomplete(playing: Play) -> None:
    """Nothing is bought for seven of eight, and the pods' event says so; the eighth comes, and all run."""
    space = "incomplete"
    _open(playing, space)
    playing.apply(_pod_group(space))
    *early, last = _members(space, MEMBERS)
    playing.apply(*early)
    playing.wait(lambda: _is_told(playing, space, PodReason.GROUP_INCOMPLETE), "a member is told why it waits")
    _buys_nothing(playing)
    began = time.monotonic()
    playing.apply(last)
    _record(playing, began, MEMBERS)


def job_set(playing: Play) -> None:
    """The Jobs of a JobSet, marked as its controller marks them; a Job's pods come at once, the second Job's later."""
    space = "jobset"
    _open(playing, space)
    playing.apply(_definition(resources.JOB_SETS))
    playing.apply(_job_set(space))
    (owner,) = playing.world.admin.list("jobsets.jobset.x-k8s.io", space)
    began = time.monotonic()
    for number in range(JOBS):
        playing.apply(_job(owner, space, number))
    _record(playing, began, JOBS * MEMBERS // 2)
    _buys_whole(playing, JOBS * MEMBERS // 2)


def leader_worker_set(playing: Play) -> None:
    """Each group's workers are created only once its leader runs; their nodes were bought with the leader's."""
    space = "leaderworkerset"
    _open(playing, space)
    playing.apply(_definition(resources.LEADER_WORKER_SETS))
    playing.apply(_leader_worker_set(space))
    (owner,) = playing.world.admin.list("leaderworkersets.leaderworkerset.x-k8s.io", space)
    began = time.monotonic()
    playing.apply(*(_leader(owner, space, number) for number in range(REPLICAS)))
    playing.wait_until_running(REPLICAS)
    _buys_whole(playing, REPLICAS * (1 + WORKERS))
    claims = {record.name for record in playing.claims()}
    playing.apply(*(_workers(owner, space, number) for number in range(REPLICAS)))
    _record(playing, began, REPLICAS * (1 + WORKERS))
    if more := {record.name for record in playing.claims()} - claims:
        playing.violations.append(f"{', '.join(sorted(more))} came for the workers, beside what was bought for them")


def _open(playing: Play, space: str) -> None:
    playing.apply(node_class(), own_pool(space, consolidate_after="5s", policy="WhenEmpty"))
    playing.ready()


def _record(playing: Play, began: float, members: int) -> None:
    """Wait until all run, and say how long that took from their submission."""
    playing.wait_until_running(members)
    print(f"{playing.name}: the last of {members} members runs {time.monotonic() - began:.1f} s after the first came")
    playing.wait_until_none_is_empty()


def _buys_nothing(playing: Play) -> None:
    end = time.monotonic() + SEEN_FOR
    while time.monotonic() < end:
        if playing.claims():
            playing.violations.append(f"{len(playing.claims())} nodes were bought for a part of the group")
            return
        time.sleep(1)


def _buys_whole(playing: Play, members: int) -> None:
    """Look that the nodes were bought for all members, also for those that did not exist yet."""
    places = sum(len(record.plan.pods) + len(record.plan.buffer_pods) for record in playing.claims())
    if places < members:
        playing.violations.append(f"nodes were bought for {places} of {members} members")


def _is_told(playing: Play, space: str, reason: str) -> bool:
    """Whether an event of ours about a pod has the reason in its message."""
    events = playing.world.admin.list("events", space, fields="reportingComponent=fleetwright")
    return any(reason in str(event.get("message")) for event in events)


def _conditions(playing: Play, space: str) -> dict[str, JsonObject]:
    found = playing.world.admin.get("podgroups.scheduling.k8s.io", "training", space) or {}
    return {condition["type"]: condition for condition in found.get("status", {}).get("conditions") or ()}


def _pod_group(space: str) -> JsonObject:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "training", "namespace": space},
        "spec": {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}},
    }


def _members(space: str, number: int) -> Iterator[JsonObject]:
    for member in range(number):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"member-{member}", "namespace": space},
            "spec": {**_pod(space), "schedulingGroup": {"podGroupName": "training"}},
        }


def _pod(space: str) -> JsonObject:
    container = {
        "name": "main",
        "image": "registry.example.com/worker:1",
        "resources": {"requests": {"cpu": str(CPUS)}},
    }
    return {"terminationGracePeriodSeconds": 0, "containers": [container], **on(space)}


def _definition(kind: Resource) -> JsonObject:
    """Where the objects of a controller that is not here are; its schema is its own."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{kind.plural}.{kind.group}",
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs"},
        },
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": {"plural": kind.plural, "singular": kind.kind.lower(), "kind": kind.kind},
            "versions": [version],
        },
    }


def _job_spec(space: str, marks: JsonObject) -> JsonObject:
    template = {"metadata": {"labels": marks, "annotations": marks}, "spec": {**_pod(space), "restartPolicy": "Never"}}
    half = MEMBERS // 2
    return {"parallelism": half, "completions": half, "completionMode": "Indexed", "template": template}


def _job_set(space: str) -> JsonObject:
    part = {"name": "workers", "replicas": JOBS, "template": {"spec": _job_spec(space, {})}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "training", "namespace": space},
        "spec": {"replicatedJobs": [part]},
    }


def _job(owner: JsonObject, space: str, number: int) -> JsonObject:
    """A Job of the JobSet as its controller (0.12) names and marks it."""
    name = f"training-workers-{number}"
    marks = {
        labels.JOB_SET: "training",
        labels.JOB_SET_PART: "workers",
        labels.JOB_SET_JOB: str(number),
        labels.JOB_SET_KEY: f"{space}-{name}",
        "jobset.sigs.k8s.io/jobset-uid": owner["metadata"]["uid"],
        "jobset.sigs.k8s.io/replicatedjob-replicas": str(JOBS),
        "jobset.sigs.k8s.io/job-global-index": str(number),
        "jobset.sigs.k8s.io/global-replicas": str(JOBS),
        "jobset.sigs.k8s.io/restart-attempt": "0",
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": space,
            "labels": marks,
            "annotations": marks,
            "ownerReferences": [_owner(owner)],
        },
        "spec": _job_spec(space, marks),
    }


def _owner(owner: JsonObject) -> JsonObject:
    metadata = owner["metadata"]
    identity = {"apiVersion": owner["apiVersion"], "kind": owner["kind"]}
    return {**identity, "name": metadata["name"], "uid": metadata["uid"], "controller": True}


def _leader_worker_set(space: str) -> JsonObject:
    template = {"size": 1 + WORKERS, "workerTemplate": {"spec": _pod(space)}}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": space, "namespace": space},
        "spec": {"replicas": REPLICAS, "leaderWorkerTemplate": template},
    }


def _leader(owner: JsonObject, space: str, number: int) -> JsonObject:
    """A leader as the StatefulSet of all leaders and the webhook of LeaderWorkerSet (0.9) make it."""
    marks, notes = _marks_of(space, number)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{space}-{number}",
            "namespace": space,
            "labels": marks | {labels.LEADER_WORKER_INDEX: "0"},
            "annotations": notes,
            "ownerReferences": [_owner(owner)],
        },
        "spec": _pod(space),
    }


def _workers(owner: JsonObject, space: str, number: int) -> JsonObject:
    """The StatefulSet of a group's workers, which LeaderWorkerSet's controller makes once the leader exists."""
    marks, notes = _marks_of(space, number)
    name = f"{space}-{number}"
    spec: dict[str, Any] = {
        "replicas": WORKERS,
        "serviceName": space,
        "podManagementPolicy": "Parallel",
        "ordinals": {"start": 1},
        "selector": {"matchLabels": marks},
        "template": {
            "metadata": {"labels": marks, "annotations": notes | {"leaderworkerset.sigs.k8s.io/leader-name": name}},
            "spec": _pod(space),
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": space, "ownerReferences": [_owner(owner)]},
        "spec": spec,
    }


def _marks_of(space: str, number: int) -> tuple[JsonObject, JsonObject]:
    """Labels and annotations of all pods of a group."""
    marks = {
        labels.LEADER_WORKER_SET: space,
        labels.LEADER_WORKER_GROUP: str(number),
        labels.LEADER_WORKER_KEY: f"key-{number}",
    }
    return marks, {labels.LEADER_WORKER_SIZE: str(1 + WORKERS)}
