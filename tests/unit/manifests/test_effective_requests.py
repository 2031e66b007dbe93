"""What a pod requests of a node."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InvalidInputError
from core.manifests import effective_requests
from core.manifests.wire import api_resources as kinds
from core.manifests.wire import decoding as wire

GIB = 2**30


def a_container(
    cpu: str = "", memory: str = "", *, name: str = "c", sidecar: bool = False, limits: dict[str, str] | None = None
) -> dict[str, Any]:
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    policy = {"restartPolicy": "Always"} if sidecar else {}
    return {"name": name, "resources": {"requests": requests, "limits": limits or {}}, **policy}


def requests(status: dict[str, Any] | None = None, **spec: Any) -> dict[str, int]:
    pod = wire.from_object(kinds.PODS, {"metadata": {"name": "p"}, "spec": spec, "status": status or {}})
    return effective_requests.of_pod(pod) if status else effective_requests.of_spec(pod.spec)


def test_containers_add_up_and_the_pod_takes_one_slot() -> None:
    """Otherwise, a node is overfull."""
    found = requests(containers=[a_container("500m", "1Gi"), a_container("1", "1Gi")])
    assert found == {"cpu": 1500, "memory": 2 * GIB, "pods": 1}


def test_init_containers_set_a_floor_and_do_not_add_up() -> None:
    """They run one after the other, before the other containers."""
    found = requests(containers=[a_container("1")], initContainers=[a_container("3"), a_container("2")])
    assert found["cpu"] == 3000


def test_sidecars_count_with_the_containers() -> None:
    """They run as long as the containers."""
    found = requests(containers=[a_container("1")], initContainers=[a_container("2", sidecar=True)])
    assert found["cpu"] == 3000


def test_an_init_container_counts_with_the_sidecars_before_it_only() -> None:
    """Order matters: a sidecar that starts later does not run yet."""
    before = [a_container("2", sidecar=True), a_container("4")]
    after = [a_container("4"), a_container("2", sidecar=True)]
    assert requests(containers=[a_container("1")], initContainers=before)["cpu"] == 6000
    assert requests(containers=[a_container("1")], initContainers=after)["cpu"] == 4000


def test_limits_replace_missing_requests() -> None:
    """The API server fills them in; a manifest that was not applied yet must give the same plan."""
    found = requests(containers=[a_container("1", limits={"cpu": "4", "memory": "2Gi"})])
    assert found == {"cpu": 1000, "memory": 2 * GIB, "pods": 1}


def test_pod_level_requests_replace_the_containers_sum() -> None:
    """Kubernetes schedules by the pod's own figure if it has one."""
    spec = {"containers": [a_container("1", "1Gi")], "resources": {"requests": {"cpu": "3"}}}
    assert requests(**spec) == {"cpu": 3000, "memory": GIB, "pods": 1}


def test_pod_level_limits_fill_in_only_resources_without_container_requests() -> None:
    """When the API server fills in the pod's requests, containers' requests win over the pod's limit."""
    spec = {"containers": [a_container("1")], "resources": {"limits": {"cpu": "3", "memory": "4Gi"}}}
    assert requests(**spec) == {"cpu": 1000, "memory": 4 * GIB, "pods": 1}


def test_overhead_of_the_runtime_class_is_added() -> None:
    """A sandboxed pod needs room for its sandbox."""
    assert requests(containers=[a_container("1")], overhead={"cpu": "250m"})["cpu"] == 1250


@pytest.mark.parametrize(
    ("reason", "expected"), [("Deferred", 4000), ("Infeasible", 2000)], ids=["waits", "can never be"]
)
def test_resizing_in_place_counts_the_larger_size(reason: str, expected: int) -> None:
    """Neither size may be given away, but a size that the node refuses is not planned for elsewhere."""
    status = {
        "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "1500m"}}}
        ],
    }
    assert requests(status, containers=[a_container("4")])["cpu"] == expected


def test_a_negative_quantity_names_its_field() -> None:
    """A user cannot correct a field that is not named."""
    with pytest.raises(InvalidInputError) as caught:
        requests(containers=[a_container("1"), a_container("-1")])
    assert caught.value.field == "spec.containers[1].resources.requests.cpu"
    assert "negative" in caught.value.problem


@pytest.mark.parametrize("kind", ["requests", "limits"])
@pytest.mark.parametrize("other", [{}, {"requests": {"memory": "1Gi"}}, {"limits": {"memory": "1Gi"}}])
def test_a_bad_amount_names_requests_or_limits(kind: str, other: dict[str, Any]) -> None:
    resources = {**other, kind: {**other.get(kind, {}), "cpu": "lots"}}
    with pytest.raises(InvalidInputError) as caught:
        requests(containers=[{"name": "c", "resources": resources}])
    assert caught.value.field == f"spec.containers[0].resources.{kind}.cpu"


def test_one_container_with_a_status_is_enough_to_ask_for_the_others() -> None:
    """The kubelet reports them one by one; an init container's counts, too."""
    known = {"name": "c", "resources": {"requests": {"cpu": "1"}}}
    for statuses, states in (
        ({"containerStatuses": [{"name": "d"}, known]}, True),
        ({"containerStatuses": [{"name": "d"}], "initContainerStatuses": [known]}, True),
        ({"containerStatuses": [{"name": "d"}]}, False),
        ({}, False),
    ):
        pod = wire.from_object(kinds.PODS, {"metadata": {"name": "p"}, "status": statuses})
        assert effective_requests.states_resources(pod.status) is states
