"""Node objects without an instance are released, and others are left alone."""

from __future__ import annotations

from core.manifests.wire import api_resources as kinds
from lambdas.controllers.sweeps.nodes.orphaned import ORPHANED_AFTER
from tests.fakes.lab import a_joining_node
from tests.unit.lambdas.controllers.sweeps.one_node import NOT_READY, a_round, a_working_node, finalizers, sweep


def test_pods_of_a_node_object_that_is_gone_are_evicted_before_its_instance_ends() -> None:
    """Such nodes are older than our finalizer, or lost it."""
    lab = a_working_node(protected=True)
    lab.kubernetes.drop(kinds.NODES, lab.claim.node_name)
    lab.reconcile()
    lab.tick(8)
    assert len(lab.cloud.instances()) == 1
    lab.kubernetes.protected.clear()
    lab.tick(20)
    assert lab.kubernetes.evicted == ["default/p"]
    assert (lab.claims, lab.cloud.instances()) == ((), ())


def test_a_deleted_node_object_without_an_instance_is_released() -> None:
    """Otherwise, it is counted, and our finalizer keeps it forever."""
    lab = a_working_node()
    name = lab.claim.node_name
    lab.rows.claims.clear()
    lab.cloud.terminate([found.instance_id for found in lab.cloud.instances()])
    lab.clock.advance(seconds=ORPHANED_AFTER.total_seconds())
    lab.reconcile()
    assert lab.kubernetes.names(kinds.NODES) == [name]
    lab.kubernetes.amend(kinds.NODES, name, NOT_READY)
    lab.kubernetes.delete(kinds.NODES, name)
    assert lab.kubernetes.names(kinds.NODES) == [name]
    report = lab.reconcile()
    assert lab.kubernetes.names(kinds.NODES) == []
    assert ("forget", name, "StrayNode") in {(d.kind, d.subject, d.reason) for d in report.decisions}


def test_unmanaged_node_objects_are_not_deleted() -> None:
    lab = a_working_node()
    theirs = a_joining_node("theirs", "aws:///us-east-1a/i-theirs")
    lab.kubernetes.put({**theirs, **NOT_READY})
    lab.clock.advance(hours=1)
    lab.reconcile()
    assert "theirs" in lab.kubernetes.names(kinds.NODES)


def test_a_node_object_kept_by_a_foreign_finalizer_is_reported_once() -> None:
    """Otherwise, each round reports its release, for as long as the other finalizer stays."""
    lab = a_working_node()
    name = lab.claim.node_name
    lab.rows.claims.clear()
    lab.cloud.terminate([found.instance_id for found in lab.cloud.instances()])
    lab.clock.advance(seconds=ORPHANED_AFTER.total_seconds())
    both = {"finalizers": [*finalizers(lab), "example.com/theirs"]}
    lab.kubernetes.amend(kinds.NODES, name, {**NOT_READY, "metadata": both})
    lab.kubernetes.delete(kinds.NODES, name)
    told = [d for _ in range(3) for d in lab.reconcile().decisions if d.reason == "StrayNode"]
    assert len(told) == 1
    assert finalizers(lab) == ["example.com/theirs"]


def test_a_node_object_that_becomes_ready_or_is_replaced_meanwhile_stays() -> None:
    """Its instance was not listed because EC2's answer was old; another object of this name is another node."""
    for meanwhile in (
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"metadata": {"uid": "another"}},
    ):
        lab = a_working_node()
        name = lab.claim.node_name
        lab.rows.claims.clear()
        lab.cloud.terminate([found.instance_id for found in lab.cloud.instances()])
        lab.clock.advance(seconds=ORPHANED_AFTER.total_seconds())
        lab.kubernetes.amend(kinds.NODES, name, NOT_READY)
        lab.kubernetes.delete(kinds.NODES, name)
        round_ = a_round(lab)
        lab.kubernetes.amend(kinds.NODES, name, meanwhile)
        report = sweep(lab, "strayNodes", round_)
        assert lab.kubernetes.names(kinds.NODES) == [name]
        assert [one for one in report.decisions if one.reason == "StrayNode"] == []
