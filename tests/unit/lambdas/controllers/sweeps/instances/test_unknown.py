"""Instances that cannot be rebuilt are ended late and few at a time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from core import labels
from core.brakes.brake import Brake, BrakeKind
from core.lifecycle.records import Deletion
from core.manifests.wire import api_resources as kinds
from core.model.catalogue import Offering
from core.model.launch_order import LaunchOrder
from installation.metric_names import SWEEP_BRAKE, UNKNOWN_INSTANCES
from lambdas.controllers.sweeps.instances.unknown import SHARE_PERCENT, UNKNOWN_AFTER
from tests.fakes.lab import Lab, a_joining_node, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.instances.instances_for_tests import ALONE, a_fleet, ids, lose


def an_untracked(lab: Lab, claim: str, *, pool: str = "default", joins: bool = False) -> str:
    """An instance with our tags and without a record."""
    order = LaunchOrder(
        claim=claim,
        node_pool=pool,
        token=f"untracked-{claim}-{pool}",
        offerings=(Offering("m5.large", "us-east-1a", "spot", 1),),
        node_class={},
        node_labels={},
        taints=(),
        tags={labels.NODEPOOL: pool, labels.NODECLAIM: claim, labels.CLAIM: claim, labels.NODECLASS: "default"},
    )
    instance = lab.cloud.launch(order).instances[0]
    if joins:
        lab.kubernetes.put(a_joining_node(f"node-{instance.instance_id}", instance.provider_id))
    return instance.instance_id


def test_an_old_instance_without_a_node_is_not_rebuilt_and_ended_as_not_joined() -> None:
    """Otherwise, an API server that lists no nodes ends a whole fleet whose rows are lost."""
    lab = a_fleet(3)
    lose(lab)
    for name in lab.kubernetes.names(kinds.NODES):
        lab.kubernetes.drop(kinds.NODES, name)
    running = ids(lab)
    lab.clock.advance(minutes=16)
    lab.provision()
    lab.reconcile()
    lab.tick(5)
    assert (ids(lab), lab.claims) == (running, ())


@pytest.mark.parametrize("why", ["duplicate", "no pool", "no node"])
def test_an_instance_that_cannot_be_rebuilt_is_ended_when_it_is_old(why: str) -> None:
    """Otherwise, an instance without a decision is paid for."""
    lab = a_fleet(1)
    claim = lab.claim.name if why == "duplicate" else "nobody"
    unknown = an_untracked(lab, claim, pool="gone" if why == "no pool" else "default")
    lab.clock.advance(seconds=UNKNOWN_AFTER.total_seconds() - 1)
    lab.reconcile()
    lab.tick()
    assert unknown in ids(lab)
    lab.clock.advance(seconds=2)
    report = lab.reconcile()
    lab.tick(2)
    assert unknown not in ids(lab)
    assert len(ids(lab)) == 1
    assert ("terminate", unknown, "UnknownInstance") in {(d.kind, d.subject, d.reason) for d in report.decisions}


def test_an_unknown_instance_with_a_node_is_drained_first() -> None:
    """Otherwise, its pods are killed with it, whatever protects them."""
    lab = a_fleet(1)
    unknown = an_untracked(lab, "nobody", pool="gone", joins=True)
    pod = a_pending_pod("q", nodeName=f"node-{unknown}")
    lab.kubernetes.put({**pod, "status": {"phase": "Running", "conditions": []}})
    lab.kubernetes.protected.add("default/q")
    lab.clock.advance(seconds=UNKNOWN_AFTER.total_seconds())
    lab.reconcile()
    lab.tick(6, seconds=30)
    assert unknown in ids(lab)
    lab.kubernetes.protected.clear()
    lab.tick(12, seconds=30)
    lab.reconcile()
    lab.tick(12, seconds=30)
    assert lab.kubernetes.evicted == ["default/q"]
    assert unknown not in ids(lab)


@pytest.mark.parametrize("joins", [True, False])
def test_it_becomes_a_claim_that_leaves_for_a_stated_reason_and_holds_no_limits(*, joins: bool) -> None:
    """It is drained as one that has joined only if it has: nobody waits for a node that never came."""
    lab = a_fleet(1)
    unknown = an_untracked(lab, "nobody", pool="gone", joins=joins)
    lab.clock.advance(seconds=UNKNOWN_AFTER.total_seconds())
    lab.reconcile()
    claim = lab.rows.claims[f"unknown-{unknown}"]
    assert (claim.phase, claim.node_name) == (("registered", f"node-{unknown}") if joins else ("launched", ""))
    assert (claim.instance_id, claim.reserved) == (unknown, {})
    assert claim.deletion is not None
    assert claim.deletion == Deletion(
        reason="UnknownInstance", message="its NodePool gone does not exist", asked_at=lab.clock.now()
    )


def test_more_than_a_few_unknown_instances_stop_everything() -> None:
    """Otherwise, NodePools deleted by mistake together with the table take all nodes with them."""
    lab = a_fleet(3)
    running = ids(lab)
    lose(lab)
    pool = lab.kubernetes.raw(kinds.NODE_POOLS, "default")
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    lab.clock.advance(hours=1)
    for _ in range(3):
        report = lab.reconcile()
        lab.tick(5)
    assert ids(lab) == running
    assert [brake.kind for brake in lab.brakes.held()] == [BrakeKind.UNKNOWN_INSTANCES]
    assert (report.counts[UNKNOWN_INSTANCES], report.counts[SWEEP_BRAKE]) == (3, 1)
    told = next(d for d in report.decisions if d.reason == BrakeKind.UNKNOWN_INSTANCES)
    assert "NodePool default does not exist" in told.message
    lab.kubernetes.put(pool)
    report = lab.reconcile()
    assert (len(lab.claims), lab.brakes.held()) == (3, ())
    assert [d.reason for d in report.decisions if d.kind == "abandon"] == [BrakeKind.UNKNOWN_INSTANCES]


def test_while_too_many_are_unknown_no_node_goes_with_its_node_pool() -> None:
    lab = a_fleet(1)
    lab.brakes.hold(Brake(BrakeKind.UNKNOWN_INSTANCES, "as of the round before"), lab.clock.now())
    for name in ("one", "two"):
        an_untracked(lab, name, pool="gone")
    lab.clock.advance(hours=1)
    lab.kubernetes.drop(kinds.NODE_POOLS, "default")
    lab.reconcile()
    assert lab.claim.deletion is None


def test_no_more_than_a_share_is_ended_in_a_round() -> None:
    assert (5, timedelta(minutes=20)) == (SHARE_PERCENT, UNKNOWN_AFTER)
    lab = Lab()
    for number in range(40):
        lab.kubernetes.put(a_pending_pod(f"p{number}", metadata={"labels": {"a": "b"}}, affinity=ALONE))
    for _ in range(3):
        lab.provision()
        lab.execute()
    assert len(lab.claims) == 40
    for name in ("one", "two", "three"):
        an_untracked(lab, name, pool="gone")
    lab.clock.advance(hours=1)
    lab.reconcile()
    assert len(ids(lab)) == 43
    lab.cloud.terminate(ids(lab)[-1:])
    lab.reconcile()
    lab.reconcile()
    assert len([claim for claim in lab.claims if claim.name.startswith("unknown-")]) == 2
