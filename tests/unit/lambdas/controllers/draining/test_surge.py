"""A single replica whose budget never allows its eviction, on a node that must go."""

from __future__ import annotations

from typing import Any

import pytest

from adapters.messages import work_on_claim
from adapters.ports import DeniedError, PortError, TransientError
from core import labels
from core.lifecycle.draining.surge import RESTARTED_FOR
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_pending_pod


def an_owner(kind: str, name: str) -> list[dict[str, Any]]:
    return [{"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}]


def a_lab(*, is_on: bool = True, opts_in: bool = True, status: dict[str, Any] | None = None, **spec: Any) -> Lab:
    """One node, whose NodePool is gone, with the only pod of a Deployment; the Deployment's spec by keyword."""
    lab = Lab(surge_restarts=is_on)
    metadata = {"namespace": "default", "name": "web", "generation": 1}
    settled = {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1}
    lab.kubernetes.put(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": {"replicas": 1, **spec}}
        | {"status": settled | (status or {})},
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"namespace": "default", "name": "web-1", "ownerReferences": an_owner("Deployment", "web")},
        },
    )
    marks = {"annotations": {labels.SURGE: "true"}} if opts_in else {}
    lab.kubernetes.put(a_pending_pod("p", metadata={"ownerReferences": an_owner("ReplicaSet", "web-1"), **marks}))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.protected = {"default/p"}
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    lab.reconcile()
    return lab


def reasons(lab: Lab, looks: int) -> list[str]:
    found = []
    for _ in range(looks):
        lab.clock.advance(seconds=10)
        report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
        found += [decision.reason for decision in report.decisions if decision.subject == "default/p"]
    return found


def restarted_for(lab: Lab) -> str | None:
    spec = lab.kubernetes.raw(kinds.DEPLOYMENTS, "web", "default")["spec"]
    marks: dict[str, str] = spec.get("template", {}).get("metadata", {}).get("annotations", {})
    return marks.get(RESTARTED_FOR)


def test_its_deployment_is_restarted_once() -> None:
    """Otherwise, the drain waits forever, or each run takes the workload down again."""
    lab = a_lab()
    assert reasons(lab, 1) == ["PodDisruptionBudget"]
    assert restarted_for(lab) is None
    assert reasons(lab, 1) == ["SurgeRestart"]
    assert restarted_for(lab) == lab.claim.name
    assert "SurgeRestart" not in reasons(lab, 10)


@pytest.mark.parametrize(
    "changes",
    [
        {"replicas": 2},
        {"paused": True},
        {"strategy": {"type": "Recreate"}},
        {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}},
        {"strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": "100%"}}},
        {"status": {"observedGeneration": 0}},
        {"status": {"replicas": 2}},
    ],
    ids=str,
)
def test_a_deployment_that_stops_old_pods_first_is_left_alone(changes: dict[str, Any]) -> None:
    """A restart that stops the old pod first is the very outage that the budget forbids."""
    lab = a_lab(**changes)
    assert reasons(lab, 2) == ["PodDisruptionBudget", "SurgeRefused"]
    assert restarted_for(lab) is None


@pytest.mark.parametrize("changes", [{"is_on": False}, {"opts_in": False}])
def test_a_workload_that_did_not_opt_in_is_not_restarted(changes: dict[str, bool]) -> None:
    lab = a_lab(**changes)
    assert reasons(lab, 4) == ["PodDisruptionBudget"]
    assert restarted_for(lab) is None


def test_a_pod_without_a_deployment_gets_an_event() -> None:
    lab = a_lab()
    lab.kubernetes.drop(kinds.REPLICA_SETS, "web-1", "default")
    assert reasons(lab, 2) == ["PodDisruptionBudget", "SurgeRefused"]


def test_a_pod_of_another_controller_restarts_no_deployment_of_that_name() -> None:
    """A Rollout also owns ReplicaSets: a Deployment of its name would be restarted, and the pod stays."""
    lab = a_lab()
    lab.kubernetes.amend(
        kinds.REPLICA_SETS, "web-1", {"metadata": {"ownerReferences": an_owner("Rollout", "web")}}, "default"
    )
    assert reasons(lab, 2) == ["PodDisruptionBudget", "SurgeRefused"]
    assert restarted_for(lab) is None


def test_a_replica_set_that_a_deployment_does_not_control_restarts_nothing() -> None:
    lab = a_lab()
    owners = [an_owner("Deployment", "web")[0] | {"controller": False}]
    lab.kubernetes.amend(kinds.REPLICA_SETS, "web-1", {"metadata": {"ownerReferences": owners}}, "default")
    assert reasons(lab, 2) == ["PodDisruptionBudget", "SurgeRefused"]
    assert restarted_for(lab) is None


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DeniedError("kube:patch deployments", "403"), "SurgeDenied"),
        (TransientError("kube:patch deployments", "500"), "SurgeFailed"),
    ],
)
def test_a_restart_that_is_denied_or_fails_stops_no_drain(error: PortError, reason: str) -> None:
    """Without the permission an operator must act; after a failure the next round tries again."""
    lab = a_lab()
    reasons(lab, 1)

    def fail(call: str) -> None:
        if call == "patch deployments":
            raise error

    lab.kubernetes.before_call = fail
    assert reasons(lab, 1) == [reason]
    assert restarted_for(lab) is None
    lab.kubernetes.before_call = lambda _: None
    assert "SurgeRestart" in reasons(lab, 3)
