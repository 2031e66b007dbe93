"""What NodePools show of their use and of what holds their nodes."""

from __future__ import annotations

from core.brakes.brake import Brake, BrakeKind
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_node_pool


def test_a_node_pool_shows_its_use_and_that_it_is_ready(lab: Lab) -> None:
    lab.reconcile()
    status = lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]
    assert status["nodes"] == 1
    assert status["resources"]["cpu"] == "2"
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "DisruptionPaused": "False",
        "LaunchDenied": "False",
        "MarketStale": "False",
        "NodeClassReady": "True",
        "NodeRegistrationHealthy": "True",
        "QuotaShort": "Unknown",
        "Ready": "True",
        "ValidationSucceeded": "True",
    }


def test_status_is_written_only_when_it_changes(lab: Lab) -> None:
    """Otherwise, every round notifies all watchers of NodePools."""
    lab.reconcile()
    version = lab.kubernetes.raw(kinds.NODE_POOLS, "default")["metadata"]["resourceVersion"]
    lab.clock.advance(minutes=30)
    lab.reconcile()
    assert lab.kubernetes.raw(kinds.NODE_POOLS, "default")["metadata"]["resourceVersion"] == version


def test_a_node_pool_reports_which_brake_keeps_its_nodes(lab: Lab) -> None:
    """Otherwise, an operator has to find the right function's log to see why nothing consolidates."""
    lab.kubernetes.put(a_node_pool("other"))
    lab.brakes.hold(Brake(BrakeKind.POOL_PROBE, "one command at a time", node_pool="default"), lab.clock.now())
    lab.reconcile()
    assert paused(lab, "default") == ("True", "NodePoolBreakerHalfOpen", "one command at a time")
    assert paused(lab, "other") == ("False", "NoBrakeEngaged", "")
    lab.brakes.hold(Brake(BrakeKind.PAUSE, "set it to run"), lab.clock.now())
    lab.reconcile()
    for pool in ("default", "other"):
        assert paused(lab, pool) == ("True", "KillSwitchPause", "set it to run")
    version = lab.kubernetes.raw(kinds.NODE_POOLS, "other")["metadata"]["resourceVersion"]
    lab.reconcile()
    assert lab.kubernetes.raw(kinds.NODE_POOLS, "other")["metadata"]["resourceVersion"] == version
    lab.brakes.release(BrakeKind.PAUSE)
    lab.reconcile()
    assert paused(lab, "other") == ("False", "NoBrakeEngaged", "")


def test_a_node_pool_reports_an_unreadable_budget(lab: Lab) -> None:
    """The API server accepts `0 25 * * *`; no node of the pool was ever disrupted, without any report."""
    budgets = [{"nodes": "1", "schedule": "0 25 * * *", "duration": "1h"}]
    lab.kubernetes.put(a_node_pool("other", disruption={"consolidateAfter": "0s", "budgets": budgets}))
    lab.reconcile()
    status, reason, message = paused(lab, "other")
    assert (status, reason) == ("True", "InvalidBudget")
    assert message.startswith("spec.disruption.budgets[0]: '25' in the hour")


def paused(lab: Lab, pool: str) -> tuple[str, str, str]:
    conditions = lab.kubernetes.raw(kinds.NODE_POOLS, pool)["status"]["conditions"]
    found = next(c for c in conditions if c["type"] == "DisruptionPaused")
    return found["status"], found["reason"], found["message"]


def test_the_usage_of_a_pools_last_node_leaves_its_status(lab: Lab) -> None:
    """A merge patch keeps unnamed fields: the figures stayed, and each round wrote them again (seed 1017)."""
    unused = a_node_pool("unused")
    unused["status"] = {"resources": {"cpu": "16", "nodes": "1"}}
    lab.kubernetes.put(unused)
    lab.reconcile()
    status = lab.kubernetes.raw(kinds.NODE_POOLS, "unused")
    assert status["status"]["resources"] == {"nodes": "0"}
    lab.clock.advance(minutes=30)
    lab.reconcile()
    again = lab.kubernetes.raw(kinds.NODE_POOLS, "unused")
    assert again["metadata"]["resourceVersion"] == status["metadata"]["resourceVersion"]


def test_an_invalid_node_pool_reports_it_and_the_rest_continues(lab: Lab) -> None:
    """Otherwise, its owner waits for nodes without any report."""
    lab.kubernetes.put(
        a_node_pool("broken", template={"requirements": [{"key": "a", "operator": "Near", "values": ["b"]}]})
    )
    report = lab.reconcile()
    conditions = lab.kubernetes.raw(kinds.NODE_POOLS, "broken")["status"]["conditions"]
    failed = next(c for c in conditions if c["type"] == "ValidationSucceeded")
    assert failed["status"] == "False"
    assert "operator" in failed["message"]
    assert report.counts["invalidNodePools"] == 1
    assert lab.kubernetes.raw(kinds.NODE_POOLS, "default")["status"]["nodes"] == 1
