"""A Node that stays although it is deleted."""

from __future__ import annotations

from adapters.messages import work_on_claim
from adapters.ports import TransientError
from core.lifecycle.steps import TaintNode
from core.manifests.wire import api_resources as kinds
from core.model.values.taints import DISRUPTED
from lambdas.controllers.draining.draining import Draining
from lambdas.controllers.draining.surge import Surge
from lambdas.controllers.nodes.node_state_reader import NodeStateReader
from tests.fakes.lab import Lab, a_pending_pod


def a_lab() -> Lab:
    """One empty node that is about to go, with a foreign finalizer."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    lab.kubernetes.drop(kinds.PODS, "p", "default")
    (node,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.amend(kinds.NODES, node, {"metadata": {"finalizers": ["example.com/hold"]}})
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    lab.reconcile()
    return lab


def deletions(lab: Lab) -> list[str]:
    """Records, from now on, each call that deletes a Node."""
    calls: list[str] = []
    lab.kubernetes.before_call = lambda call: calls.append(call) if call == "delete nodes" else None
    return calls


def test_a_foreign_finalizer_is_waited_for_and_reported() -> None:
    """Otherwise, one such node takes 500 calls a minute, and its claim stays forever."""
    lab = a_lab()
    calls = deletions(lab)
    reports = []
    for _ in range(8):
        reports += lab.tick(4, seconds=30)
        lab.reconcile()
    assert calls == ["delete nodes"]
    told = [(d.kind, d.reason) for report in reports for d in report.decisions]
    assert ("terminate", "AwaitingFinalizers") in told
    assert told[-1] == ("forget", "NodeHeldByFinalizers")
    assert lab.claims == ()
    assert lab.cloud.instances() == ()


def test_a_node_goes_when_its_finalizer_is_removed() -> None:
    lab = a_lab()
    lab.tick(10, seconds=5)
    (node,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.drop(kinds.NODES, node)
    reports = lab.tick(10, seconds=10)
    assert [d.reason for report in reports for d in report.decisions] == ["NodePoolDeleted"]
    assert lab.claims == ()


def test_a_volume_that_is_not_detached_keeps_its_node_and_is_told_of_once_it_has_had_its_time() -> None:
    """The time begins when the last pod has left, which is stored once."""
    lab = a_lab()
    (node,) = lab.kubernetes.names(kinds.NODES)
    attached = {"attacher": "ebs.csi.aws.com", "nodeName": node, "source": {"persistentVolumeName": "pv-1"}}
    group = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment"}
    lab.kubernetes.put({**group, "metadata": {"name": "at"}, "spec": attached})
    lab.tick(2)
    assert lab.claim.deletion is not None
    emptied_at = lab.claim.deletion.emptied_at
    assert emptied_at is not None
    lab.clock.advance(minutes=4)
    assert lab.execute(work_on_claim(lab.claim.name, lab.clock.now())).decisions == []
    lab.clock.advance(minutes=1)
    (told,) = lab.execute(work_on_claim(lab.claim.name, lab.clock.now())).decisions
    assert (told.reason, told.message.rpartition(" ")[2]) == ("DrainSlow", f"{emptied_at:%Y-%m-%dT%H:%M:%SZ}")
    assert lab.claim.deletion.emptied_at == emptied_at
    lab.kubernetes.drop(kinds.VOLUME_ATTACHMENTS, "at")
    lab.tick()
    assert lab.claim.deletion.terminated_at is not None


def test_consecutive_errors_cause_longer_and_longer_waits() -> None:
    """Otherwise, a failing API server gets twelve requests a minute for each claim."""
    lab = a_lab()

    def fail(call: str) -> None:
        raise TransientError(call, "500")

    lab.kubernetes.before_call = fail
    delays = []
    for _ in range(5):
        lab.execute()
        delays.append(int(lab.work.sent[-1][1].total_seconds()))
    assert delays == [5, 10, 20, 30, 30]


def test_what_follows_in_the_same_run_sees_the_node_with_its_marks() -> None:
    """It is read again after the write: the next write would begin from a Node without the taint, and conflict."""
    lab = a_lab()
    (node,) = lab.kubernetes.names(kinds.NODES)
    reader = NodeStateReader(lab.kubernetes, lab.cloud, lab.clock)
    seen = reader.node(node)
    assert seen is not None
    assert DISRUPTED not in seen.node.taints
    draining = Draining(lab.kubernetes, lab.app.adapters.stores.claims, Surge(lab.kubernetes, is_on=False), lab.clock)
    marks = TaintNode(node, {"team": "x"}, {"why": "y"}, (DISRUPTED,))
    record = draining.taint(lab.claim, marks, reader)
    assert record.deletion is not None
    assert record.deletion.tainted_at == lab.clock.now()
    again = reader.node(node)
    assert again is not None
    assert (again.node.taints, again.node.labels["team"], again.node.annotations["why"]) == ((DISRUPTED,), "x", "y")
    lab.clock.advance(minutes=1)
    later = draining.taint(record, marks, reader)
    assert later is record, "terminationGracePeriod counts from the first time"
