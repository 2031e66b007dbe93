"""Reading PodDisruptionBudgets, DaemonSets, Services, workloads and namespaces."""

from __future__ import annotations

import pytest

from core.errors import InvalidInputError
from core.manifests import policies
from core.manifests.pods import PodTranslator
from core.manifests.wire import api_resources as kinds
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
