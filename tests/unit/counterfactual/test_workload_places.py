"""Where pods run in a simulated fleet."""

from __future__ import annotations

import pytest

from core.counterfactual.workload_places import carried_over, is_simulated
from core.model.pod import Owner, Pod
from tests.builders import a_pod


def owned(name: str) -> Pod:
    return a_pod(name, owners=(Owner(kind="ReplicaSet", name="web", is_controller=True),))


def workloads_of(*pods: Pod) -> dict[str, str]:
    return {pod.key: pod.workload for pod in pods}


PODS = [owned("a"), owned("b")]
PLACES, WORKLOADS = {"default/a": "n1", "default/b": "n2"}, workloads_of(*PODS)


def test_a_successor_takes_the_place_of_the_pod_that_disappeared() -> None:
    """In the record Karpenter evicted it; in the simulated fleet it did not move."""
    assert carried_over(PLACES, WORKLOADS, workloads_of(owned("b"), owned("c"))) == {
        "default/b": "n2",
        "default/c": "n1",
    }


@pytest.mark.parametrize("other", [a_pod("stranger"), owned("a2")])
def test_a_pod_without_a_free_place_of_its_workload_has_none(other: Pod) -> None:
    here = [owned("b"), other] if other.name == "stranger" else [*PODS, other]
    assert other.key not in carried_over(PLACES, WORKLOADS, workloads_of(*here))


def test_pods_of_daemon_sets_or_of_a_node_and_gated_or_ended_pods_need_no_place() -> None:
    daemon = a_pod("d", owners=(Owner(kind="DaemonSet", name="agent", is_controller=True),))
    static = a_pod("s", owners=(Owner(kind="Node", name="n1", is_controller=True),))
    others = (daemon, static, a_pod("g", is_gated=True), a_pod("e", phase="Succeeded"))
    assert [is_simulated(pod) for pod in (a_pod("a"), *others)] == [True, False, False, False, False]
