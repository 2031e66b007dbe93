"""Pods would be evicted against their owner's word, or nodes kept for budgets that do not concern them."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.disruption.pod_disruption_budgets import EvictionLedger, disruptions_allowed, is_evictable
from core.model.budget_arithmetic import never_allows
from core.model.pod import Owner, Pod
from core.model.policy import ALWAYS_ALLOW, PodDisruptionBudget, WorkloadSelector
from core.model.snapshot import Snapshot
from core.model.values.taints import Toleration
from tests.builders import NOW, a_pod, a_selector, a_snapshot


def running(name: str, **changes: Any) -> Pod:
    """A ready pod of the app `web`."""
    fields = {"node_name": "node-1", "phase": "Running", "is_ready": True, "labels": {"app": "web"}, **changes}
    return a_pod(name, **fields)


def budget(name: str = "web", **changes: Any) -> PodDisruptionBudget:
    """A budget over the app `web`."""
    return PodDisruptionBudget(**{"namespace": "default", "name": name, "selector": a_selector(app="web"), **changes})


def ledger(pods: list[Pod], *budgets: PodDisruptionBudget) -> EvictionLedger:
    """The ledger of a snapshot with these."""
    snapshot: Snapshot = a_snapshot(pods=tuple(pods), budgets=budgets)
    return EvictionLedger(snapshot)


@pytest.mark.parametrize(
    ("changes", "pods", "expected"),
    [
        ({"disruptions_allowed": 2, "max_unavailable": "0"}, 4, 2),
        ({"max_unavailable": "0"}, 4, 0),
        ({"max_unavailable": "1"}, 4, 1),
        ({"max_unavailable": "30%"}, 4, 2),
        ({"min_available": "100%"}, 4, 0),
        ({"min_available": "50%"}, 3, 1),
        ({"min_available": "3"}, 4, 1),
        ({"min_available": "9"}, 4, 0),
        ({"min_available": "some"}, 4, 0),
        ({}, 4, 4),
    ],
)
def test_allowance(changes: dict[str, Any], pods: int, expected: int) -> None:
    """The status counts where there is one; before the controller wrote it, its own arithmetic does."""
    assert disruptions_allowed(budget(**changes), [running(str(n)) for n in range(pods)]) == expected


def test_unready_pods_use_up_the_allowance() -> None:
    """One of three is down already: with at most one unavailable no other may go."""
    pods = [running("a"), running("b"), running("c", is_ready=False)]
    assert disruptions_allowed(budget(max_unavailable="1"), pods) == 0


def test_blocked_pod_is_named() -> None:
    """The message says which pod and which budget."""
    pods = [running("a")]
    found = ledger(pods, budget(disruptions_allowed=0)).blocking(pods)
    assert found == (pods[0], "web")


def test_two_budgets_on_one_pod_block() -> None:
    """The eviction API refuses a pod with two budgets, however generous."""
    pods = [running("a")]
    assert ledger(pods, budget(disruptions_allowed=5), budget("more", disruptions_allowed=5)).blocking(pods)


@pytest.mark.parametrize(
    "changes",
    [
        {"namespace": "other"},
        {"labels": {"app": "db"}},
        {"phase": "Succeeded"},
        {"deleted_at": NOW},
        {"owners": (Owner("Node", "node-1"),)},
        {"tolerations": (Toleration(labels.DISRUPTED_TAINT, "Exists"),)},
    ],
)
def test_budget_does_not_concern(changes: dict[str, Any]) -> None:
    """Pods of another namespace or app, finished, leaving, mirror pods and those that outlast draining are never evicted."""
    pods = [running("a", **changes)]
    assert ledger(pods, budget(disruptions_allowed=0)).blocking(pods) is None


def test_always_allow_frees_only_unready_pods() -> None:
    """AlwaysAllow lets a broken pod go; a ready one stays guarded."""
    guard = budget(disruptions_allowed=0, unhealthy_pod_eviction_policy=ALWAYS_ALLOW)
    broken, fine = running("a", is_ready=False), running("b")
    assert ledger([broken], guard).blocking([broken]) is None
    assert ledger([fine], guard).blocking([fine])


def test_selectors() -> None:
    """No selector selects nothing, an empty one everything of the namespace."""
    pods = [running("a", labels={})]
    assert ledger(pods, budget(selector=None, disruptions_allowed=0)).blocking(pods) is None
    assert ledger(pods, budget(selector=a_selector(), disruptions_allowed=0)).blocking(pods)


def test_nodes_that_go_together_share_the_allowance() -> None:
    """One pod may go at a time: one node may, even with two such pods, but no two nodes."""
    first, second, third = running("a"), running("b"), running("c")
    found = ledger([first, second, third], budget(disruptions_allowed=1))
    assert found.allows_together([[first, second]])
    assert not found.allows_together([[first], [second]])
    found.take([first])
    assert not found.allows_together([[second]])
    assert found.allows_together([[]])


def test_protected_pods_are_not_evictable() -> None:
    """do-not-disrupt keeps a pod from eviction while it is in force."""
    assert is_evictable(running("a"), NOW)
    assert not is_evictable(running("a", annotations={labels.DO_NOT_DISRUPT: "true"}), NOW)


@pytest.mark.parametrize(
    ("changes", "replicas", "why"),
    [
        ({"max_unavailable": "0"}, 3, "maxUnavailable 0 spares none of 3 pods"),
        ({"max_unavailable": "0%"}, 3, "maxUnavailable 0% spares none of 3 pods"),
        ({"max_unavailable": "1%"}, 3, ""),
        ({"min_available": "1"}, 1, "minAvailable 1 wants 1 of 1 pod"),
        ({"min_available": "3"}, 3, "minAvailable 3 wants 3 of 3 pods"),
        ({"min_available": "2"}, 3, ""),
        ({"min_available": "100%"}, 3, "minAvailable 100% wants 3 of 3 pods"),
        ({"min_available": "67%"}, 3, "minAvailable 67% wants 3 of 3 pods"),
        ({"min_available": "66%"}, 3, ""),
        ({"min_available": "50%"}, 1, "minAvailable 50% wants 1 of 1 pod"),
        ({"min_available": "1"}, 0, ""),
        ({}, 1, ""),
    ],
)
def test_budgets_that_never_let_a_pod_go(changes: dict[str, Any], replicas: int, why: str) -> None:
    """Else a node is drained that cannot be, and stays half empty; or one is kept that a minute would have freed."""
    assert never_allows(budget(**changes), replicas) == why


def test_the_arithmetic_is_told_of_what_the_status_says() -> None:
    """Else the user hears "not now" for ever."""
    pods = [running("a")]
    never = budget(min_available="1", disruptions_allowed=0, expected_pods=1)
    said = ledger(pods, never).objection(pods)
    assert said == "PodDisruptionBudget web never lets pod default/a be evicted: minAvailable 1 wants 1 of 1 pod"
    later = budget(min_available="1", disruptions_allowed=0, expected_pods=2)
    assert ledger(pods, later).objection(pods) == "PodDisruptionBudget web does not let pod default/a be evicted now"


def test_without_a_status_the_owners_scale_counts() -> None:
    """A Deployment of three with one pod so far has two to spare later, whatever its ReplicaSets say."""
    owner = Owner("ReplicaSet", "web-1", "apps/v1", is_controller=True)
    pods = (running("a", owners=(owner,), is_ready=False),)
    scales = (
        WorkloadSelector(namespace="default", kind="ReplicaSet", name="web-1", replicas=1),
        WorkloadSelector(
            namespace="default", kind="Deployment", name="web", selector=a_selector(app="web"), replicas=3
        ),
    )
    guard = budget(min_available="1")
    alone = a_snapshot(pods=pods, budgets=(guard,), workload_selectors=scales[:1])
    scaled = a_snapshot(pods=pods, budgets=(guard,), workload_selectors=scales)
    assert EvictionLedger(alone).lasting_objection(pods)
    assert not EvictionLedger(scaled).lasting_objection(pods)


def test_a_budget_that_lets_a_pod_go_now_is_not_said_to_let_none_go() -> None:
    """A rollout may have one pod more than is wanted."""
    pods = [running("a"), running("b")]
    assert not ledger(pods, budget(min_available="1", disruptions_allowed=1, expected_pods=1)).objection(pods)


def test_a_pod_that_may_be_brought_up_elsewhere_first_is_no_objection() -> None:
    """Its owner opted in: else nodes with such a pod are never consolidated."""
    owner = Owner("ReplicaSet", "web-1", "apps/v1", is_controller=True)
    surging = running("a", owners=(owner,), annotations={labels.SURGE: "true"})
    never = budget(min_available="1", disruptions_allowed=0, expected_pods=1)
    closed = budget(min_available="1", disruptions_allowed=0, expected_pods=2)
    assert not ledger([surging], never).objection([surging])
    assert ledger([surging], closed).objection([surging])
    assert ledger([surging], never, budget("more")).objection([surging])
