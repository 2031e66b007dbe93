"""A consolidation whose node gets a protected pod between the taint and the first eviction."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from adapters.messages import work_on_claim
from adapters.ports import JsonObject
from adapters.run_report import RunReport
from core import labels
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_node_pool, a_pending_pod

CAPACITY = {"cpu": "4"}


def a_lab(**pool: Any) -> Lab:
    """An empty node whose removal has begun, and a protected pod that has just been bound to it."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    lab.clock.advance(minutes=1)
    lab.kubernetes.put(a_node_pool(**pool))
    lab.app.shared.claim_deletion.begin(lab.claim, "Empty", "test", RunReport())
    lab.kubernetes.put(a_pending_pod("late", metadata={"annotations": {labels.DO_NOT_DISRUPT: "true"}}))
    lab.bind("late")
    return lab


def work(lab: Lab) -> RunReport:
    return lab.execute(work_on_claim(lab.claim.name, lab.clock.now()))


def test_the_node_is_restored_and_left_alone_for_a_while() -> None:
    """Otherwise, it stays closed with one pod on it, and its NodePool's limits do not count it."""
    lab = a_lab()
    report = work(lab)
    (node,) = lab.kubernetes.names(kinds.NODES)
    written = lab.kubernetes.raw(kinds.NODES, node)
    assert [(d.kind, d.reason) for d in report.decisions] == [("abandon", "DoNotDisrupt")]
    assert written["spec"]["taints"] == []
    assert labels.EXCLUDE_FROM_BALANCERS not in written["metadata"]["labels"]
    assert lab.claim.deletion is None
    assert lab.claim.reserved["nodes"] == 1
    assert lab.rows.usage["default"].reserved == lab.claim.reserved
    assert lab.rows.usage["default"].disrupting == 0
    assert lab.claim.hold is not None
    assert lab.claim.hold.until > lab.clock.now()


def test_a_node_that_its_kubelet_changes_meanwhile_is_restored_as_well() -> None:
    """A kubelet writes every ten seconds: our taint would stay until `reconcile` finds it, on a node that is kept."""
    lab = a_lab()
    (node,) = lab.kubernetes.names(kinds.NODES)
    writes = ["first of ours"]

    def before(call: str) -> None:
        if call == "patch nodes" and lab.claim.deletion is None and writes:
            writes.clear()
            lab.kubernetes.amend(kinds.NODES, node, {"metadata": {"labels": {"written-by": "kubelet"}}})

    lab.kubernetes.before_call = before
    work(lab)
    written = lab.kubernetes.raw(kinds.NODES, node)
    assert not writes
    assert (written["spec"]["taints"], written["metadata"]["labels"]["written-by"]) == ([], "kubelet")


def test_without_room_in_the_limits_the_drain_goes_on() -> None:
    """Its replacement may have used the room: limits are never exceeded."""
    lab = a_lab(limits={"cpu": "1"})
    assert [d.reason for d in work(lab).decisions] == ["LimitReached"]
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.is_final
    assert [d.reason for d in work(lab).decisions] == []


def test_a_node_that_must_go_keeps_its_drain() -> None:
    """A spot notice may come while a node is being consolidated."""
    lab = a_lab()
    report = RunReport()
    lab.app.shared.claim_deletion.begin(lab.claim, "SpotInterrupted", "notice", report)
    assert [d.reason for d in report.decisions] == ["SpotInterrupted"]
    work(lab)
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.reason == "SpotInterrupted"


@pytest.mark.parametrize("minutes", [14, 16])
def test_after_the_hold_it_may_go_again(minutes: int) -> None:
    lab = a_lab()
    work(lab)
    lab.kubernetes.drop(kinds.PODS, "late", "default")
    lab.clock.advance(minutes=1)
    lab.reconcile()
    lab.clock.advance(minutes=minutes - 1)
    lab.disrupt()
    assert bool(lab.rows.commands) == (minutes > 15)


@pytest.mark.parametrize("made_by_hand", [True, False])
def test_a_node_whose_pool_is_gone_is_kept_only_if_it_was_made_by_hand(made_by_hand: bool) -> None:
    """A NodeClaim of a user needs no NodePool; any other node has to follow its own."""
    lab = a_lab()
    annotations = {labels.MADE_BY_HAND: "uid"} if made_by_hand else {}
    plan = msgspec.structs.replace(lab.claim.plan, annotations=annotations)
    lab.app.adapters.stores.claims.change(lab.claim, msgspec.structs.replace(lab.claim, plan=plan))
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    work(lab)
    assert (lab.claim.deletion is None) is made_by_hand


def a_restored_drain(reason: str = "Underutilized", **template: Any) -> Lab:
    """A working node with a pod that a budget protects; the table is restored to a drain of two days ago, since cancelled."""
    lab = Lab()
    pool = a_node_pool()
    pool["spec"]["template"]["spec"].update(template)
    lab.kubernetes.put(pool)
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.bind("p")
    lab.kubernetes.protected.add("default/p")
    lab.app.shared.claim_deletion.begin(lab.claim, reason, "test", RunReport())
    work(lab)
    assert lab.claim.deletion is not None
    assert lab.claim.deletion.tries
    (node,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.patch(kinds.NODES, node, {"spec": {"taints": []}})
    lab.clock.advance(minutes=2 * 24 * 60)
    return lab


def test_a_drain_of_a_restored_table_does_not_force_pods_off_a_working_node() -> None:
    """Its deadline has passed, so the pod would be deleted within a second, past its budget."""
    lab = a_restored_drain(terminationGracePeriod="1h")
    report = work(lab)
    assert [(found.kind, found.reason) for found in report.decisions] == [("abandon", "TaintRemoved")]
    assert lab.claim.deletion is None
    assert lab.claim.hold is not None
    assert lab.kubernetes.names(kinds.PODS) == ["p"]
    work(lab)
    assert lab.kubernetes.names(kinds.PODS) == ["p"]


def test_a_drain_that_must_go_on_taints_its_node_again() -> None:
    """If this failed, whoever removes a taint could keep an instance that EC2 is about to take."""
    lab = a_restored_drain(reason="SpotInterrupted")
    work(lab)
    (node,) = lab.kubernetes.names(kinds.NODES)
    assert [taint["key"] for taint in lab.kubernetes.raw(kinds.NODES, node)["spec"]["taints"]] == [
        labels.DISRUPTED_TAINT
    ]


def a_guard(name: str, **spec: Any) -> JsonObject:
    """A PodDisruptionBudget for the pods of app `late`, of which it counts one."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "late"}}, **spec},
        "status": {"disruptionsAllowed": 0, "expectedPods": 1, "observedGeneration": 1},
    }


def test_a_budget_that_never_lets_its_pod_go_keeps_the_node_and_an_unreadable_one_is_passed_over() -> None:
    lab = a_lab()
    lab.kubernetes.put(a_pending_pod("late", metadata={"labels": {"app": "late"}}))
    lab.bind("late")
    lab.kubernetes.put(a_guard("broken", selector={"matchExpressions": [{"key": "a", "operator": "Near"}]}))
    lab.kubernetes.put(a_guard("never", minAvailable=1))
    assert [d.reason for d in work(lab).decisions] == ["PodDisruptionBudget"]
    assert lab.claim.deletion is None
