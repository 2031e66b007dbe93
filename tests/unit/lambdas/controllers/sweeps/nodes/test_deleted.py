"""A Node that somebody deletes is drained before it goes."""

from __future__ import annotations

from core import labels
from core.lifecycle.records import ClaimPhase
from core.manifests.wire import api_resources as kinds
from tests.fakes.lab import Lab, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.one_node import a_working_node, finalizers


def delete_as_a_user(lab: Lab) -> None:
    """Removes a Node as the API server does, when its last finalizer goes."""
    body = {"metadata": {"deletionTimestamp": lab.clock.now().isoformat()}}
    lab.kubernetes.amend(kinds.NODES, lab.claim.node_name, body)


def test_a_deleted_node_is_drained_before_it_goes() -> None:
    """Otherwise, `kubectl delete node` kills its pods, whatever protects them."""
    lab = a_working_node(protected=True)
    assert finalizers(lab) == [labels.TERMINATION_FINALIZER]
    delete_as_a_user(lab)
    lab.reconcile()
    lab.tick(8)
    assert len(lab.cloud.instances()) == 1
    assert finalizers(lab) == [labels.TERMINATION_FINALIZER]
    lab.kubernetes.protected.clear()
    lab.tick(20)
    assert lab.kubernetes.evicted == ["default/p"]
    assert (lab.claims, lab.cloud.instances()) == ((), ())


def test_disrupt_is_woken_when_the_instance_is_told_to_end_not_when_its_node_is_gone() -> None:
    """Its place in the budgets is free then, and EC2 takes up to a minute for the rest."""
    lab = a_working_node()
    lab.kubernetes.protected.clear()
    delete_as_a_user(lab)
    lab.reconcile()
    lab.run_requests.take()
    for _ in range(20):
        lab.tick()
        if lab.claims and lab.claim.deletion is not None and lab.claim.deletion.terminated_at is not None:
            break
    assert len(lab.run_requests.take()) == 1
    lab.tick(20)
    assert (lab.claims, lab.run_requests.take()) == ((), [])


def test_a_foreign_finalizer_stays_where_it_is() -> None:
    """Otherwise, we break another controller's work before the node goes."""
    lab = a_working_node()
    (name,) = lab.kubernetes.names(kinds.NODES)
    lab.kubernetes.amend(
        kinds.NODES, name, {"metadata": {"finalizers": ["example.com/mine", labels.TERMINATION_FINALIZER]}}
    )
    delete_as_a_user(lab)
    lab.reconcile()
    lab.tick(20)
    assert finalizers(lab) == ["example.com/mine"]
    assert lab.cloud.instances() == ()


def test_a_node_that_joined_again_under_its_name_works_again() -> None:
    """Its Node was deleted past its finalizers, and its kubelet started again before anyone looked."""
    lab = Lab()
    lab.kubernetes.put(a_pending_pod("p"))
    lab.settle()
    node, instance, opened = lab.claim.node_name, lab.claim.instance_id, lab.claim.initialized_at
    launched_at = lab.claim.moments.launched_at
    lab.clock.advance(minutes=10)
    lab.kubernetes.drop(kinds.NODES, node)
    lab.boot()
    assert lab.taints() == ["karpenter.sh/unregistered"]
    lab.reconcile()
    lab.tick(6)
    assert lab.taints() == []
    found = lab.kubernetes.raw(kinds.NODES, node)["metadata"]
    assert found["labels"][labels.INITIALIZED] == found["labels"][labels.REGISTERED] == "true"
    assert labels.TERMINATION_FINALIZER in found["finalizers"]
    assert (lab.claim.phase, lab.claim.instance_id, lab.claim.deletion) == (ClaimPhase.INITIALIZED, instance, None)
    assert opened is not None
    assert lab.claim.initialized_at is not None
    assert lab.claim.initialized_at > opened
    assert lab.claim.moments.launched_at == launched_at
