"""Pods would be evicted against their owner's word, or nodes kept for budgets that do not concern them."""

from __future__ import annotations

from typing import Any

import pytest

from core import labels
from core.disruption.pod_disruption_budgets import EvictionLedger, disruptions_allowed, is_evictable
from core.model.pod import Owner, Pod
from core.model.policy import ALWAYS_ALLOW, PodDisruptionBudget
from core.model.snapshot import Snapshot
from core.model.taints import Toleration
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
