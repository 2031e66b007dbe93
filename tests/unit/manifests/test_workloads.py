"""Workloads from files become the pods that their controllers would create."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InvalidInputError
from core.manifests.pods import PodTranslator
from core.manifests.wire import decoding, resources
from core.manifests.wire.resources import Resource
from core.manifests.workloads import REPLICAS_MAX, Expansion, expand


def a_workload(resource: Resource, name: str = "cart", *, owner: tuple[str, str] | None = None, **spec: Any) -> Any:
    owners = [{"kind": owner[0], "name": owner[1]}] if owner else []
    metadata = {"name": name, "namespace": "shop", "ownerReferences": owners}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c"}]}}
    return decoding.from_object(resource, {"metadata": metadata, "spec": {"template": template, **spec}})


def a_pod_of(kind: str, name: str, **pod_labels: str) -> Any:
    metadata = {"name": "p", "namespace": "shop", "labels": pod_labels}
    return decoding.from_object(
        resources.PODS, {"metadata": metadata | {"ownerReferences": [{"kind": kind, "name": name}]}}
    )


def names(expansions: tuple[Expansion, ...]) -> list[str]:
    return [pod.metadata.name for expansion in expansions for pod in expansion.pods]


def expanded(resource: Resource, **spec: Any) -> tuple[Expansion, ...]:
    return expand({resource: [a_workload(resource, **spec)]})


@pytest.mark.parametrize(
    "resource",
    [
        resources.DEPLOYMENTS,
        resources.REPLICA_SETS,
        resources.STATEFUL_SETS,
        resources.REPLICATION_CONTROLLERS,
        resources.JOBS,
    ],
)
def test_every_kind_makes_pods_of_its_template(resource: Resource) -> None:
    """A plan for manifests is a plan for their pods."""
    count = {"parallelism": 2} if resource == resources.JOBS else {"replicas": 2}
    (expansion,) = expanded(resource, **count)
    assert names((expansion,)) == ["cart-0", "cart-1"]
    pod = PodTranslator().pod(expansion.pods[0])
    assert (pod.namespace, pod.labels["app"]) == ("shop", "cart")
    assert (pod.owners[0].kind, pod.owners[0].name, pod.owners[0].is_controller) == (resource.kind, "cart", True)


def test_one_replica_is_the_default() -> None:
    """As in the API server; zero is zero."""
    assert names(expanded(resources.DEPLOYMENTS)) == ["cart-0"]
    assert names(expanded(resources.DEPLOYMENTS, replicas=0)) == []


@pytest.mark.parametrize(
    ("spec", "count"),
    [
        ({}, 1),
        ({"parallelism": 3}, 3),
        ({"parallelism": 3, "completions": 2}, 2),
        ({"completions": 5}, 1),
        ({"parallelism": 3, "suspend": True}, 0),
        ({"parallelism": 0}, 0),
        ({"parallelism": 0, "completions": 4}, 0),
        ({"parallelism": 9, "completions": 0}, 0),
    ],
)
def test_a_job_has_as_many_pods_as_may_run_at_once_and_are_needed(spec: dict[str, Any], count: int) -> None:
    """More would launch nodes for pods that never come."""
    assert len(names(expanded(resources.JOBS, **spec))) == count


def test_a_job_without_completions_left_still_has_no_negative_parallelism() -> None:
    """The field at fault is named although no pod would be needed."""
    with pytest.raises(InvalidInputError) as caught:
        expanded(resources.JOBS, parallelism=-3, completions=0)
    assert caught.value.field == "spec.parallelism"


def test_a_job_without_completions_makes_no_pods_once_one_has_succeeded() -> None:
    """The others run to their end (pkg/controller/job/job_controller.go, manageJob)."""
    job = decoding.from_object(
        resources.JOBS, {"metadata": {"name": "j"}, "spec": {"parallelism": 3}, "status": {"succeeded": 1}}
    )
    assert [pod for found in expand({resources.JOBS: [job]}) for pod in found.pods] == []


def test_a_finished_job_has_no_pods() -> None:
    """It needs none."""
    done = {"conditions": [{"type": "Complete", "status": "True"}]}
    job = decoding.from_object(resources.JOBS, {"metadata": {"name": "j"}, "status": done})
    partly = decoding.from_object(
        resources.JOBS,
        {"metadata": {"name": "k"}, "spec": {"parallelism": 4, "completions": 4}, "status": {"succeeded": 3}},
    )
    assert names(expand({resources.JOBS: [job, partly]})) == ["k-0"]
    for kind, status, count in (("Failed", "True", 0), ("Complete", "False", 1), ("Suspended", "True", 1)):
        told = {"conditions": [{"type": kind, "status": status}]}
        job = decoding.from_object(resources.JOBS, {"metadata": {"name": "j"}, "status": told})
        assert len(names(expand({resources.JOBS: [job]}))) == count


def test_cron_jobs_have_no_pods_now() -> None:
    """They create Jobs at their times."""
    assert expand({resources.CRON_JOBS: [decoding.from_object(resources.CRON_JOBS, {"metadata": {"name": "c"}})]}) == ()


def test_a_workload_whose_pods_are_in_the_input_is_not_expanded() -> None:
    """Otherwise, its pods count twice."""
    workload = a_workload(resources.STATEFUL_SETS)
    found = expand({resources.STATEFUL_SETS: [workload], resources.PODS: [a_pod_of("StatefulSet", "cart")]})
    assert names(found) == []


def test_a_deployments_pods_are_recognized_by_their_replica_set() -> None:
    """With the ReplicaSet in the input, or by the pods' hash alone."""
    deployment = a_workload(resources.DEPLOYMENTS)
    replica_set = a_workload(resources.REPLICA_SETS, "cart-abc", owner=("Deployment", "cart"))
    pod = a_pod_of("ReplicaSet", "cart-abc")
    hashed = a_pod_of("ReplicaSet", "cart-abc", **{"pod-template-hash": "abc"})
    with_set = {resources.DEPLOYMENTS: [deployment], resources.REPLICA_SETS: [replica_set], resources.PODS: [pod]}
    without = {resources.DEPLOYMENTS: [deployment], resources.PODS: [hashed]}
    assert names(expand(with_set)) == []
    assert names(expand(without)) == []
    for name, own in (
        ("cart-None", {}),
        ("cart-", {"pod-template-hash": ""}),
        ("cart-abc", {"pod-template-hash": "b"}),
    ):
        unknown = {resources.DEPLOYMENTS: [deployment], resources.PODS: [a_pod_of("ReplicaSet", name, **own)]}
        assert names(expand(unknown)) == ["cart-0"]
    other = {
        resources.DEPLOYMENTS: [deployment],
        resources.PODS: [a_pod_of("Own", "cart-abc", **{"pod-template-hash": "abc"})],
    }
    assert names(expand(other)) == ["cart-0"]


def test_a_deployment_wins_over_its_replica_sets() -> None:
    """Both in the input represent the same pods."""
    replica_set = a_workload(resources.REPLICA_SETS, "cart-abc", owner=("Deployment", "cart"))
    found = expand({resources.DEPLOYMENTS: [a_workload(resources.DEPLOYMENTS)], resources.REPLICA_SETS: [replica_set]})
    assert names(found) == ["cart-0"]


def test_a_stateful_sets_pods_have_their_claims() -> None:
    """Each has its own volumes, so each may be tied to another zone."""
    templates = [{"metadata": {"name": "data"}, "spec": {"storageClassName": "gp3"}}]
    (expansion,) = expanded(resources.STATEFUL_SETS, replicas=2, volumeClaimTemplates=templates, ordinals={"start": 5})
    assert names((expansion,)) == ["cart-5", "cart-6"]
    assert [claim.metadata.name for claim in expansion.claims] == ["data-cart-5", "data-cart-6"]
    assert {claim.spec.storage_class_name for claim in expansion.claims} == {"gp3"}
    pods = [PodTranslator().pod(pod) for pod in expansion.pods]
    assert [pod.claim_names() for pod in pods] == [("data-cart-5",), ("data-cart-6",)]
    assert pods[0].labels["statefulset.kubernetes.io/pod-name"] == "cart-5"


def test_a_stateful_sets_pods_keep_the_other_volumes_of_their_template() -> None:
    """A volume of the name of a claim template is that claim; each claim has the labels of its template."""
    own = {"name": "own", "persistentVolumeClaim": {"claimName": "shared"}}
    other = {"name": "data", "persistentVolumeClaim": {"claimName": "other"}}
    pod = {"spec": {"containers": [{"name": "c"}], "volumes": [own, other]}}
    claim = {"metadata": {"name": "data", "labels": {"app": "a"}, "annotations": {"note": "b"}}}
    stateful = decoding.from_object(
        resources.STATEFUL_SETS,
        {"metadata": {"name": "db"}, "spec": {"replicas": 2, "template": pod, "volumeClaimTemplates": [claim]}},
    )
    (expansion,) = expand({resources.STATEFUL_SETS: [stateful]})
    assert [PodTranslator().pod(pod).claim_names() for pod in expansion.pods] == [
        ("shared", "data-db-0"),
        ("shared", "data-db-1"),
    ]
    assert [(one.metadata.namespace, one.metadata.name) for one in (*expansion.pods, *expansion.claims)] == [
        ("default", "db-0"),
        ("default", "db-1"),
        ("default", "data-db-0"),
        ("default", "data-db-1"),
    ]
    assert [(one.metadata.labels, one.metadata.annotations) for one in expansion.claims] == [
        ({"app": "a"}, {"note": "b"})
    ] * 2
    assert [volume.name for volume in stateful.spec.template.spec.volumes] == ["own", "data"]  # the template stays


def test_an_existing_claim_is_not_created_again() -> None:
    """It may be bound, and its volume determines the zone."""
    stateful = a_workload(resources.STATEFUL_SETS, volumeClaimTemplates=[{"metadata": {"name": "data"}}])
    there = {"metadata": {"name": "data-cart-0", "namespace": "shop"}}
    claim = decoding.from_object(resources.PERSISTENT_VOLUME_CLAIMS, there)
    (expansion,) = expand({resources.STATEFUL_SETS: [stateful], resources.PERSISTENT_VOLUME_CLAIMS: [claim]})
    assert expansion.claims == ()
    assert len(expansion.pods) == 1


def test_pods_of_two_deployments_differ_by_their_template_hash() -> None:
    """Spread constraints with matchLabelKeys distinguish them by it."""
    first = a_workload(resources.DEPLOYMENTS, "a")
    second = a_workload(resources.DEPLOYMENTS, "b")
    found = expand({resources.DEPLOYMENTS: [first, second]})
    hashes = {pod.metadata.labels["pod-template-hash"] for expansion in found for pod in expansion.pods}
    assert len(hashes) == 2


def test_expanded_pods_share_one_spec() -> None:
    """For the scheduler, a thousand replicas are one group of pods."""
    (expansion,) = expanded(resources.DEPLOYMENTS, replicas=3)
    assert len({id(pod.spec) for pod in expansion.pods}) == 1


@pytest.mark.parametrize("replicas", [-1, REPLICAS_MAX + 1])
def test_absurd_replica_counts_are_refused(replicas: int) -> None:
    """A typing mistake must not fill the memory."""
    with pytest.raises(InvalidInputError) as caught:
        expanded(resources.DEPLOYMENTS, replicas=replicas)
    assert (caught.value.subject, caught.value.field) == ("Deployment shop/cart", "spec.replicas")


def test_objects_without_a_namespace_are_of_the_default_one() -> None:
    """A Deployment in a file accounts for its ReplicaSet in either spelling; otherwise, its pods are planned twice."""
    template = {"spec": {"containers": [{"name": "c"}]}}
    owner = {"metadata": {"name": "cart"}, "spec": {"template": template}}
    owned = {"name": "cart-1", "ownerReferences": [{"kind": "Deployment", "name": "cart"}]}
    objects = {
        resources.DEPLOYMENTS: [decoding.from_object(resources.DEPLOYMENTS, owner)],
        resources.REPLICA_SETS: [
            decoding.from_object(resources.REPLICA_SETS, {"metadata": owned, "spec": {"template": template}})
        ],
    }
    assert names(expand(objects)) == ["cart-0"]
