"""Reading PodDisruptionBudgets, DaemonSets, Services, workloads and namespaces."""

from __future__ import annotations

import msgspec
import pytest

from core.errors import InvalidInputError
from core.manifests import policies
from core.manifests.pods import PodTranslator
from core.manifests.selectors import equality_selector
from core.manifests.wire import api_resources as kinds
from core.model.policy import PodDisruptionBudget, Service, WorkloadSelector
from tests.unit.manifests.objects_for_tests import written


def test_a_pod_disruption_budget_without_selector_selects_nothing() -> None:
    """With an empty selector it selects everything (policy/v1)."""
    found = [
        policies.pod_disruption_budget(written(kinds.POD_DISRUPTION_BUDGETS, spec=spec)).selector
        for spec in ({}, {"selector": {}})
    ]
    assert found[0] is None
    assert found[1] is not None
    assert found[1].matches({})


def test_a_pod_disruption_budgets_numbers_stay_as_written() -> None:
    """50% is not 50."""
    spec = {"minAvailable": "50%", "maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    found = policies.pod_disruption_budget(
        written(kinds.POD_DISRUPTION_BUDGETS, spec=spec, status={"disruptionsAllowed": 0})
    )
    assert (found.min_available, found.max_unavailable, found.disruptions_allowed) == ("50%", "1", 0)
    assert found.unhealthy_pod_eviction_policy == "AlwaysAllow"
    assert policies.pod_disruption_budget(written(kinds.POD_DISRUPTION_BUDGETS)).disruptions_allowed is None


def test_a_daemon_set_is_the_pod_that_its_template_makes() -> None:
    """Its labels and requests are overhead on every node; a fault is named with its place in the template."""
    container = {"name": "c", "resources": {"limits": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [container]}}
    found = policies.daemon_set(written(kinds.DAEMON_SETS, spec={"template": template}), PodTranslator())
    assert (found.labels, found.spec.requests) == ({"app": "agent"}, {"cpu": 100, "pods": 1})
    container["resources"] = {"requests": {"cpu": "-1"}}
    with pytest.raises(InvalidInputError) as caught:
        policies.daemon_set(written(kinds.DAEMON_SETS, spec={"template": template}), PodTranslator())
    assert caught.value.field == "spec.template.spec.containers[0].resources.requests.cpu"


def test_selectors_of_services_and_workloads() -> None:
    """Default spread constraints depend on them."""
    service = policies.service(written(kinds.SERVICES, spec={"selector": {"app": "a"}}))
    assert service.selector == {"app": "a"}
    workload = policies.workload_selector(
        written(kinds.STATEFUL_SETS, spec={"selector": {"matchLabels": {"app": "a"}}}), "StatefulSet"
    )
    assert workload.selector is not None
    assert workload.selector.matches({"app": "a", "b": "c"})
    controller = policies.controller_selector(written(kinds.REPLICATION_CONTROLLERS, spec={"selector": {"app": "a"}}))
    assert controller.selector == workload.selector


def test_a_namespace_carries_its_own_name_as_a_label() -> None:
    """Kubernetes sets it; namespace selectors use it."""
    found = policies.namespace(written(kinds.NAMESPACES, meta={"labels": {"team": "a"}}))
    assert found.labels == {"kubernetes.io/metadata.name": "x", "team": "a"}


@pytest.mark.parametrize(("namespace", "read"), [("prod", "prod"), (None, "default"), ("", "default")])
def test_an_object_without_a_namespace_is_in_the_default_one(namespace: str | None, read: str) -> None:
    """Users' manifests may leave it out; a budget that is read into another namespace protects others' pods."""
    meta = {} if namespace is None else {"namespace": namespace}
    template = {"spec": {"template": {"spec": {"containers": []}}}}
    daemons = written(kinds.DAEMON_SETS, meta=meta, **template)
    budget = written(kinds.POD_DISRUPTION_BUDGETS, meta=meta)
    found = [
        policies.pod_disruption_budget(budget),
        policies.unreadable_budget(budget),
        policies.daemon_set(daemons, PodTranslator()),
        policies.unreadable_daemon_set(daemons, InvalidInputError("x")),
        policies.service(written(kinds.SERVICES, meta=meta)),
        policies.workload_selector(written(kinds.DEPLOYMENTS, meta=meta), "Deployment"),
        policies.controller_selector(written(kinds.REPLICATION_CONTROLLERS, meta=meta)),
    ]
    assert [(one.namespace, one.name) for one in found] == [(read, "x")] * len(found)


def test_a_budget_that_cannot_be_read_protects_every_pod_of_its_namespace() -> None:
    """It may select any of them."""
    found = policies.unreadable_budget(written(kinds.POD_DISRUPTION_BUDGETS))
    assert found.selector is not None
    assert (found.selector.matches({"any": "pod"}), found.max_unavailable, found.disruptions_allowed) == (True, "0", 0)


def test_a_daemon_set_that_cannot_be_read_says_why() -> None:
    found = policies.unreadable_daemon_set(written(kinds.DAEMON_SETS), InvalidInputError("is wrong", field="spec.a"))
    assert (found.spec.problem, found.spec.requests) == ("spec.a: is wrong", {"pods": 1})
    nameless = policies.unreadable_daemon_set(written(kinds.DAEMON_SETS), InvalidInputError("is wrong"))
    assert nameless.spec.problem == "is wrong"


@pytest.mark.parametrize(
    ("generation", "observed", "allowed"), [(2, 1, None), (2, 2, 3), (2, 3, 3), (2, None, 3), (0, 0, 3)]
)
def test_a_status_of_an_older_generation_says_nothing(
    generation: int, observed: int | None, allowed: int | None
) -> None:
    """The controller has not seen the new numbers."""
    status = {"disruptionsAllowed": 3, "expectedPods": 3} | (
        {} if observed is None else {"observedGeneration": observed}
    )
    found = policies.pod_disruption_budget(
        written(kinds.POD_DISRUPTION_BUDGETS, meta={"generation": generation}, status=status)
    )
    assert (found.disruptions_allowed, found.expected_pods) == (allowed, allowed)


def test_a_controller_without_a_selector_selects_nothing() -> None:
    assert policies.controller_selector(written(kinds.REPLICATION_CONTROLLERS)).selector is None
    assert policies.workload_selector(written(kinds.DEPLOYMENTS, spec={"replicas": 4}), "Deployment").replicas == 4


def test_every_field_is_read() -> None:
    """What is lost protects no pod, or counts as no overhead."""
    meta = {"namespace": "shop"}
    budget = written(
        kinds.POD_DISRUPTION_BUDGETS,
        meta=meta | {"generation": 1},
        spec={
            "selector": {"matchLabels": {"app": "a"}},
            "minAvailable": 2,
            "maxUnavailable": "10%",
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
        status={"disruptionsAllowed": 1, "expectedPods": 4, "observedGeneration": 1},
    )
    assert policies.pod_disruption_budget(budget) == PodDisruptionBudget(
        namespace="shop",
        name="x",
        selector=equality_selector({"app": "a"}),
        min_available="2",
        max_unavailable="10%",
        disruptions_allowed=1,
        expected_pods=4,
        unhealthy_pod_eviction_policy="AlwaysAllow",
    )
    spec = {"selector": {"matchLabels": {"app": "a"}}, "replicas": 3}
    assert policies.workload_selector(written(kinds.REPLICA_SETS, meta=meta, spec=spec), "ReplicaSet") == (
        WorkloadSelector(
            namespace="shop", kind="ReplicaSet", name="x", selector=equality_selector({"app": "a"}), replicas=3
        )
    )
    spec = {"selector": {"app": "a"}, "replicas": 3}
    assert policies.controller_selector(written(kinds.REPLICATION_CONTROLLERS, meta=meta, spec=spec)) == (
        WorkloadSelector(
            namespace="shop",
            kind="ReplicationController",
            name="x",
            selector=equality_selector({"app": "a"}),
            replicas=3,
        )
    )
    service = policies.service(written(kinds.SERVICES, meta=meta, spec={"selector": {"app": "a"}}))
    assert service == Service(namespace="shop", name="x", selector={"app": "a"})


def test_a_daemon_set_of_which_a_part_was_not_read_says_why() -> None:
    """Its pods would otherwise need nothing on a new node."""
    found = msgspec.structs.replace(written(kinds.DAEMON_SETS), unreadable="spec.template: must be an object")
    with pytest.raises(InvalidInputError, match="must be an object"):
        policies.daemon_set(found, PodTranslator())
    budget = msgspec.structs.replace(written(kinds.POD_DISRUPTION_BUDGETS), unreadable="spec: must be an object")
    with pytest.raises(InvalidInputError, match="spec: must be an object"):
        policies.pod_disruption_budget(budget)
