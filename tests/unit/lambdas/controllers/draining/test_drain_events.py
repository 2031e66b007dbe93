"""A drain that a closed budget blocks: reported on the pod and the node, and counted."""

from __future__ import annotations

from typing import Any

from adapters.messages import work_on_claim
from adapters.ports import TransientError
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_pending_pod


def a_blocked_lab() -> Lab:
    """A node whose NodePool is gone, with one pod that a budget keeps."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.protected = {"default/p"}
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    lab.reconcile()
    lab.execute()
    return lab


def events(lab: Lab) -> list[dict[str, Any]]:
    found = [lab.kubernetes.raw(kinds.EVENTS, n, "default") for n in lab.kubernetes.names(kinds.EVENTS)]
    return [event for event in found if event["reason"] == "FailedDraining"]


def work(lab: Lab, **span: float) -> list[str]:
    lab.clock.advance(**span)
    report = lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))
    return [decision.reason for decision in report.decisions]


def test_the_reason_is_shown_on_the_pod_and_the_node() -> None:
    """`kubectl describe` of the pod or the node gives the reason; without it, operators must read our log."""
    lab = a_blocked_lab()
    assert work(lab, minutes=4) == []
    assert work(lab, minutes=1) == ["DrainSlow"]
    assert work(lab, minutes=1) == []
    (node,) = lab.kubernetes.names(kinds.NODES)
    told = {(e["involvedObject"]["kind"], e["involvedObject"]["name"]): e["message"] for e in events(lab)}
    assert set(told) == {("Pod", "p"), ("Node", node)}
    assert all(
        "a PodDisruptionBudget allows no eviction of its workload's pods" in message for message in told.values()
    )


def test_blocked_drains_are_counted() -> None:
    lab = a_blocked_lab()
    assert lab.reconcile().counts["drainsBlocked"] == 0
    assert work(lab, minutes=15) == ["DrainBlocked"]
    assert lab.reconcile().counts["drainsBlocked"] == 1
    assert work(lab, hours=24) == ["DrainAlarming"]
    assert lab.reconcile().counts["drainsBlockedForADay"] == 1


def test_events_that_cannot_be_written_stop_nothing() -> None:
    lab = a_blocked_lab()

    def refuse(call: str) -> None:
        if call == "create events":
            raise TransientError(call, "500")

    lab.kubernetes.before_call = refuse
    assert work(lab, minutes=5) == ["DrainSlow"]
    lab.kubernetes.protected = set()
    work(lab, minutes=1)
    assert lab.kubernetes.evicted == ["default/p"]
