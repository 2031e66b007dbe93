"""Claims whose instances vanished go a few at a time."""

from __future__ import annotations

from core.manifests.wire import api_resources as kinds
from lambdas.metric_names import LOST_INSTANCES_HELD
from tests.fakes.lab import Lab, a_pending_pod
from tests.unit.lambdas.controllers.sweeps.one_node import NOT_READY


def test_few_claims_go_at_once_because_their_instances_vanished() -> None:
    """Otherwise, a list of another account or region terminates a fleet whose nodes a network fault has cut off."""
    lab = Lab()
    lab.kubernetes.put(*(a_pending_pod(f"p{number}", cpu="3") for number in range(3)))
    lab.settle()
    assert len(lab.claims) == 3
    for name in lab.kubernetes.names(kinds.NODES):
        lab.kubernetes.amend(kinds.NODES, name, NOT_READY)
    lab.cloud.terminate([found.instance_id for found in lab.cloud.instances()])
    lab.clock.advance(minutes=5)
    report = lab.reconcile()
    assert len([claim for claim in lab.claims if claim.deletion is not None]) == 1
    assert report.counts[LOST_INSTANCES_HELD] == 2
    assert "ManyInstancesGone" in {d.reason for d in report.decisions}
    lab.tick(6)
    for _ in range(4):
        lab.clock.advance(minutes=2)
        lab.reconcile()
        lab.tick(10)
    assert lab.claims == ()
