"""Objects that say how pods start together: read as their controllers write them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from core import labels
from core.manifests.assemble import ObjectProblem, assemble
from core.manifests.groups import MEMBERS_MAX, made_of_job_set, made_of_leader_worker_set, needed_kinds
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.model.catalogue import Catalogue
from core.model.pod import GroupObject
from tests.builders import NOW

POD = {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2", "nvidia.com/gpu": "1"}}}]}


def read(
    kind: Resource, spec: dict[str, Any], **metadata: Any
) -> tuple[tuple[GroupObject, ...], tuple[ObjectProblem, ...]]:
    given = {"metadata": {"name": "train", "namespace": "ml", **metadata}, "spec": spec}
    snapshot, problems = assemble({kind: [decoding.from_object(kind, given)]}, now=NOW, catalogue=Catalogue())
    return snapshot.group_objects, problems


def one(kind: Resource, spec: dict[str, Any], **metadata: Any) -> GroupObject:
    (group,), problems = read(kind, spec, **metadata)
    assert problems == ()
    assert (group.namespace, group.name.split("/")[0]) == ("ml", "train")
    return group


def test_a_pod_group_of_kubernetes() -> None:
    """The fields of `scheduling.k8s.io/v1beta1` (k8s.io/api v0.37.2)."""
    spec = {
        "schedulingPolicy": {"gang": {"minCount": 4}},
        "schedulingConstraints": {"topology": [{"key": labels.ZONE}]},
        "disruptionMode": {"all": {}},
        "priority": 7,
    }
    group = one(resources.POD_GROUPS, spec, creationTimestamp="2026-11-19T12:00:00Z")
    assert (group.source, group.minimum, group.priority, group.topology_keys) == ("PodGroup", 4, 7, (labels.ZONE,))
    assert group.disrupts_all
    assert group.created_at is not None
    basic = one(resources.POD_GROUPS, {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"single": {}}})
    assert (basic.minimum, basic.disrupts_all) == (0, False)


def test_the_groups_of_a_workload() -> None:
    spec = {"podGroups": [{"name": "a", "policy": {"gang": {"minCount": 2}}}, {"name": "b", "policy": {"basic": {}}}]}
    found, _ = read(resources.WORKLOADS, spec)
    assert [(group.name, group.minimum) for group in found] == [("train/a", 2), ("train/b", 0)]


@pytest.mark.parametrize("kind", [resources.VOLCANO_POD_GROUPS, resources.COSCHEDULING_POD_GROUPS])
def test_a_pod_group_of_another_scheduler(kind: Resource) -> None:
    assert one(kind, {"minMember": 6, "minResources": {"cpu": "6"}}).minimum == 6


def test_a_leader_worker_set() -> None:
    spec = {
        "replicas": 2,
        "leaderWorkerTemplate": {
            "size": 4,
            "leaderTemplate": {"metadata": {"labels": {"role": "leader"}}, "spec": {"containers": []}},
            "workerTemplate": {"spec": POD},
        },
    }
    group = one(resources.LEADER_WORKER_SETS, spec, annotations={labels.LEADER_WORKER_TOPOLOGY: labels.ZONE})
    assert (group.minimum, group.topology_keys) == (4, (labels.ZONE,))
    assert [(template.part, template.pods) for template in group.templates] == [("leader", 1), ("worker", 3)]
    assert group.templates[0].labels == {"role": "leader"}
    assert group.templates[1].spec.requests["nvidia.com/gpu"] == 1
    alike = one(resources.LEADER_WORKER_SETS, {"leaderWorkerTemplate": {"size": 1, "workerTemplate": {"spec": POD}}})
    assert [(template.part, template.pods) for template in alike.templates] == [("leader", 1)]


def test_a_job_set() -> None:
    """A Job has no more pods at a time than completions are left."""
    job = {"parallelism": 4, "template": {"spec": POD}}
    spec = {
        "startupPolicy": {"startupPolicyOrder": "InOrder"},
        "replicatedJobs": [
            {"name": "driver", "template": {"spec": {"template": {"spec": POD}}}},
            {"name": "workers", "replicas": 3, "template": {"spec": job | {"completions": 2}}},
        ],
    }
    group = one(resources.JOB_SETS, spec)
    assert (group.minimum, group.starts_in_order) == (7, True)
    assert [(t.part, t.jobs, t.pods) for t in group.templates] == [("driver", 1, 1), ("workers", 3, 2)]


@pytest.mark.parametrize(
    ("kind", "spec", "field"),
    [
        (resources.POD_GROUPS, {"schedulingPolicy": {"gang": {"minCount": -4}}}, "spec.schedulingPolicy.gang.minCount"),
        (resources.VOLCANO_POD_GROUPS, {"minMember": -1}, "spec.minMember"),
        (resources.COSCHEDULING_POD_GROUPS, {"minMember": MEMBERS_MAX + 1}, "spec.minMember"),
        (
            resources.WORKLOADS,
            {"podGroups": [{"name": "a", "policy": {"gang": {"minCount": -1}}}]},
            "spec.podGroups[0].policy.gang.minCount",
        ),
        (
            resources.JOB_SETS,
            {"replicatedJobs": [{"name": "a", "replicas": 5000, "template": {"spec": {"parallelism": 5000}}}]},
            "spec.replicatedJobs",
        ),
        (
            resources.LEADER_WORKER_SETS,
            {"leaderWorkerTemplate": {"size": 10**6}},
            "spec.leaderWorkerTemplate.size",
        ),
    ],
)
def test_an_object_that_cannot_be_read_is_named_and_left_out(kind: Resource, spec: dict[str, Any], field: str) -> None:
    groups, (problem,) = read(kind, spec)
    assert groups == ()
    assert problem.field == field


def test_a_template_is_read_without_its_programs() -> None:
    """A snapshot that somebody sends tells no environment."""
    container = {"name": "c", "image": "secret", "env": [{"name": "TOKEN", "value": "secret"}]}
    worker = {"spec": {"containers": [container]}}
    given = {"metadata": {"name": "llm"}, "spec": {"leaderWorkerTemplate": {"size": 2, "workerTemplate": worker}}}
    assert b"secret" not in msgspec.json.encode(decoding.from_object(resources.LEADER_WORKER_SETS, given))


def test_only_kinds_that_pods_name_are_needed() -> None:
    def pod(spec: dict[str, Any] | None = None, **metadata: Any) -> Any:
        given = {"metadata": {"name": "p", "namespace": "ml", **metadata}, "spec": {"containers": [], **(spec or {})}}
        return decoding.from_object(resources.PODS, given)

    assert needed_kinds([pod()]) == ()
    assert needed_kinds([pod({"schedulingGroup": {"podGroupName": "g"}})]) == (resources.POD_GROUPS,)
    assert needed_kinds([pod({"workloadRef": {"name": "w", "podGroup": "g"}})]) == (resources.WORKLOADS,)
    assert needed_kinds([pod(labels={labels.JOB_SET: "train"})]) == (resources.JOB_SETS,)
    assert needed_kinds([pod(labels={labels.LEADER_WORKER_SET: "llm"})]) == (resources.LEADER_WORKER_SETS,)
    assert needed_kinds([pod(labels={labels.COSCHEDULING_GROUP: "g"})]) == (resources.COSCHEDULING_POD_GROUPS,)
    assert needed_kinds([pod(annotations={labels.VOLCANO_GROUP: "g"})]) == (resources.VOLCANO_POD_GROUPS,)


def test_kinds_of_one_name_are_told_apart_by_their_group() -> None:
    assert resources.resource_read("scheduling.volcano.sh", "PodGroup") == resources.VOLCANO_POD_GROUPS
    assert resources.resource_read("scheduling.x-k8s.io", "PodGroup") == resources.COSCHEDULING_POD_GROUPS
    assert resources.resource_read("scheduling.k8s.io", "PodGroup") == resources.POD_GROUPS
    assert resources.resource_read("kueue.x-k8s.io", "Workload") is None


# What controllers make of manifests.


def the_job_set(**changes: Any) -> Any:
    part = {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 3, "template": {"spec": POD}}}}
    given = {"metadata": {"name": "train", "namespace": "ml"}, "spec": {"replicatedJobs": [part]}, **changes}
    return decoding.from_object(resources.JOB_SETS, given)


def the_leader_worker_set(size: int = 3, **changes: Any) -> Any:
    spec = {"replicas": 2, "leaderWorkerTemplate": {"size": size, "workerTemplate": {"spec": POD}}}
    return decoding.from_object(resources.LEADER_WORKER_SETS, {"metadata": {"name": "llm"}, "spec": spec} | changes)


def a_wire_pod(**marks: str) -> Any:
    return decoding.from_object(resources.PODS, {"metadata": {"name": "p", "namespace": "ml", "labels": marks}})


def test_a_job_set_makes_a_job_of_each_copy() -> None:
    jobs = [*made_of_job_set(the_job_set(), ())]
    assert [(job.metadata.name, job.spec.parallelism) for job in jobs] == [("train-w-0", 3), ("train-w-1", 3)]
    assert jobs[1].spec.template.metadata.labels[labels.JOB_SET_JOB] == "1"
    suspended = the_job_set(spec={"suspend": True, "replicatedJobs": [{"name": "w"}]})
    assert [job.spec.suspend for job in made_of_job_set(suspended, ())] == [True]


def test_a_job_set_with_pods_or_that_is_over_makes_none() -> None:
    assert [*made_of_job_set(the_job_set(), [a_wire_pod(**{labels.JOB_SET: "train"})])] == []
    assert [*made_of_job_set(the_job_set(status={"terminalState": "Completed"}), ())] == []
    leaving = {"name": "train", "namespace": "ml", "deletionTimestamp": "2026-11-20T00:00:00Z"}
    assert [*made_of_job_set(the_job_set(metadata=leaving), ())] == []
    assert [*made_of_leader_worker_set(the_leader_worker_set(metadata=leaving), ())] == []
    assert len([*made_of_job_set(the_job_set(), [a_wire_pod(**{labels.JOB_SET: "other"})])]) == 2


def test_a_leader_worker_set_makes_a_leader_and_its_workers_for_each_group() -> None:
    made = [*made_of_leader_worker_set(the_leader_worker_set(), ())]
    found = [(one.metadata.name, one.spec.ordinals.start, one.spec.replicas) for one in made]
    assert found == [("llm", 0, 1), ("llm-0", 1, 2), ("llm", 1, 1), ("llm-1", 1, 2)]
    assert made[0].spec.template.metadata.labels[labels.LEADER_WORKER_INDEX] == "0"
    assert made[1].spec.template.metadata.annotations[labels.LEADER_WORKER_SIZE] == "3"
    assert len([*made_of_leader_worker_set(the_leader_worker_set(size=1), ())]) == 2


def test_groups_with_a_domain_of_their_own_keep_each_other_out() -> None:
    """The webhooks of JobSet and LeaderWorkerSet write this into the leader, which then finds another domain."""
    job_set = the_job_set(metadata={"name": "train", "annotations": {labels.JOB_SET_TOPOLOGY: labels.ZONE}})
    notes = {"name": "llm", "annotations": {labels.LEADER_WORKER_TOPOLOGY: labels.ZONE}}
    made = [*made_of_job_set(job_set, ()), *made_of_leader_worker_set(the_leader_worker_set(1, metadata=notes), ())]
    terms = []
    for workload in made:
        (term,) = workload.spec.template.spec.affinity.pod_anti_affinity.required
        exists, other = term.label_selector.match_expressions
        assert (term.topology_key, exists.operator, other.operator) == (labels.ZONE, "Exists", "NotIn")
        assert other.values == (workload.spec.template.metadata.labels[other.key],)
        terms.append((other.key, other.values[0]))
    assert terms == [
        (labels.JOB_SET_KEY, "train-w-0"),
        (labels.JOB_SET_KEY, "train-w-1"),
        (labels.LEADER_WORKER_KEY, "llm-0"),
        (labels.LEADER_WORKER_KEY, "llm-1"),
    ]
